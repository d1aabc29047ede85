"""What pages say of the checker and compute-sanitizer is in the record; each difference has its reason."""

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import agreement
from camp_softmax.bench import report
from placeholders import MissingError, calls
from prose import read
from sanitizer import PARTS, TOOLS, Agreement, expand
from test_docs_results import cells
from test_docs_words import spacing_complaints

ROOT = Path(__file__).parents[1]
REAL = Agreement.load(ROOT / "docs")
NAMES = [name for part in PARTS for name in REAL.told[part]]
LANGUAGES = ("zh", "en")


def test_the_record_is_of_a_gpu_and_every_tool_got_to_its_summary() -> None:
    assert (REAL.record["schema"], REAL.record["kind"]) == (1, "agreement")
    assert REAL.record["stamp"]["device"].startswith("NVIDIA")
    text = (ROOT / "docs/results/agreement.json").read_text("utf-8")
    assert text == report.dump(REAL.record)
    for name in NAMES:
        for tool in TOOLS:
            assert REAL.verdict(name, tool) in ("", "warns", "reports")


def test_every_kernel_is_described_in_both_languages() -> None:
    of = {
        part: [e["name"] for e in agreement.entries() if e["correct"] == (part == "correct")]
        for part in PARTS
    }
    assert {part: list(REAL.told[part]) for part in PARTS} == of
    for told in (entry for part in PARTS for entry in REAL.told[part].values()):
        assert told.keys() == set(LANGUAGES)
    zh = [told["zh"] for part in PARTS for told in REAL.told[part].values()]
    zh += [entry["zh"] for entry in REAL.told["why"]]
    assert not list(spacing_complaints({"docs/zh/agreement.toml": "\n".join(zh)}))


def unexplained(a: Agreement) -> list[str]:
    """Where a side is wrong and nobody says why, and reasons for what is not so."""
    wrong = {name: kind for part in PARTS for name in a.told[part] if (kind := a.kind(name))}
    told = [name for why in a.told["why"] for name in why["of"]]
    found = [f"{name}: say why ({kind})" for name, kind in wrong.items() if told.count(name) != 1]
    found += [f"{name}: nobody is wrong about it" for name in told if name not in wrong]
    for why in a.told["why"]:
        if len(kinds := sorted({str(wrong.get(name)) for name in why["of"]})) > 1:
            found.append(f"{', '.join(why['of'])}: of different kinds: {', '.join(kinds)}")
    return found


def test_every_difference_is_explained() -> None:
    assert not (found := unexplained(REAL)), "\n".join(found)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_has_every_kind_of_difference(language: str) -> None:
    """And the checker reports no correct kernel."""
    page = (ROOT / f"docs/{language}/checker.md").read_text("utf-8")
    asked = [call.split()[1] for call in calls(page, "agreement") if call.startswith(":why")]
    assert sorted(asked) == sorted({kind for name in NAMES if (kind := REAL.kind(name))})
    assert REAL.count("correct", "checker") == 0


def test_every_reference_is_in_the_record() -> None:
    for page, text in read(ROOT).items():
        if calls(text, "agreement"):
            expand(text, REAL, page.split("/")[1], "", page)


def test_what_the_prose_says_of_the_record_is_so() -> None:
    assert REAL.record["tools"]["compute-sanitizer"].startswith("Version 2025.3.")
    assert REAL.record["tools"]["initcheck"] == []  # no --initcheck-address-space yet
    for name in NAMES:
        kernel = REAL.kernel(name)
        if name != "barrier after the result":  # an error in one run, a warning in another
            assert (REAL.verdict(name, "racecheck") == "warns") == name.startswith("no __syncwarp"), name
        if kernel["numbers"].startswith("cuda"):
            for tool in ("racecheck", "initcheck", "synccheck"):
                assert kernel[tool][0] == "Target application returned an error", name
                assert not REAL.verdict(name, tool), name
    assert "on access by cudaMemcpy source" in REAL.kernel("everybody's first row")["initcheck"][1]
    assert REAL.kernel("barrier after the result")["numbers"] == "right"
    assert [REAL.kernel(name)["numbers"] for name in ("half a mask", "an absent lane")] == ["right", "wrong"]


# --- on a small record ------------------------------------------------------------------------------

CLEAN, NO_RACE = (
    ["ERROR SUMMARY: 0 errors"],
    ["RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"],
)
NOTHING = {"checker": "", "numbers": "right", "memcheck": CLEAN, "racecheck": NO_RACE}
NOTHING |= {"initcheck": CLEAN, "synccheck": CLEAN}
WARNS = [
    "Warning: Race <1>",
    "    and Read",
    "Error: 2",
    "RACECHECK SUMMARY: 2 hazards displayed (0 errors, 1 warning)",
]
HAZARD = ["Error: Race", "RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)"]


def small() -> Agreement:
    kernels = [
        NOTHING | {"name": "a", "checker": "a.cuh:1: race: y[0]", "racecheck": WARNS},
        NOTHING
        | {"name": "b", "checker": "a.cuh:2: out of bounds: y[9]", "numbers": "cudaErrorIllegalAddress"},
        NOTHING | {"name": "c", "initcheck": ["At 1", "ERROR SUMMARY: 1 error"], "numbers": "unknown"},
        NOTHING | {"name": "d", "numbers": "wrong"},
        NOTHING | {"name": "e", "checker": "a.cuh:3: race: x", "racecheck": HAZARD},
        NOTHING | {"name": "f"},
        NOTHING | {"name": "g h", "racecheck": HAZARD},
    ]
    record = {"stamp": {"device": "NVIDIA H200", "driver": "1.2", "cuda": "13.0", "date": "2026-11-30"}}
    record["stamp"]["commit"] = "0123456789"
    record |= {"tools": {"compute-sanitizer": "Version 2025.3 (x)"}, "kernels": kernels}
    words = {
        name: {"en": f"`{name}` <", "zh": f"核 {name}"} for name in ("a", "b", "c", "d", "e", "f", "g h")
    }
    why = [{"of": [name], "en": f"{name}, `so`", "zh": "因为"} for name in ("b", "c", "d", "g h")]
    seeded = {name: words[name] for name in "abcde"}
    return Agreement(record, {"seeded": seeded, "correct": {k: words[k] for k in ("f", "g h")}, "why": why})


def shown(text: str, language: str = "en", a: Agreement | None = None) -> str:
    return expand(text, a or small(), language, "a.json", "docs/en/a.md")


def test_a_figure_stands_in_the_sentence() -> None:
    text = (
        "{{ agreement:seeded }} {{agreement:correct}} {{ agreement:right }}/{{ agreement:compared }} {{ a }}"
    )
    assert shown(text) == "5 2 2/4 {{ a }}"
    assert shown("On {{ agreement:device }}, {{ results:a }}") == "On NVIDIA H200, {{ results:a }}"


def test_a_table_has_the_verdict_of_each_side() -> None:
    head, *rows = cells(shown("{{ agreement:table seeded }}", "zh"))
    assert head == ["放进去的错", "检查器", *TOOLS, "不用工具时的结果"]
    assert rows == [
        ["核 a", "<code>race</code>", "–", "警告", "–", "–", "对"],
        [
            "核 b",
            "<code>out of bounds</code>",
            *"––––",
            "<code>cuda<wbr>Error<wbr>Illegal<wbr>Address</code>",
        ],
        ["核 c", *"–––", "报告", "–", "–"],
        ["核 d", *"–––––", "错"],
        ["核 e", "<code>race</code>", "–", "报告", "–", "–", "对"],
    ]
    assert cells(shown("{{ agreement:table correct }}"))[2] == [
        "<code>g h</code> &lt;",
        *"––",
        "reports",
        *"––",
        "right",
    ]


def test_the_sums_have_every_side() -> None:
    head, *rows = cells(shown("{{ agreement:sums }}"))
    assert head == ["", "found, of 5", "false alarms, of 2"]
    assert rows == [
        ["checker", "3", "0"],
        ["the four tools together", "3", "1"],
        ["memcheck", "0", "0"],
        ["racecheck", "2", "1"],
        ["initcheck", "1", "0"],
        ["synccheck", "0", "0"],
    ]


def test_the_reasons_come_by_who_is_wrong() -> None:
    kinds = {"checker-alone": "b", "tools-alone": "c", "neither": "d", "false-alarms": "g h"}
    for kind, name in kinds.items():
        strong = f"<strong><code>{name}</code> &lt;</strong>"
        text = shown(f"{{{{ agreement:why {kind} }}}}")
        assert text == f"<ul><li>{strong}<br>{name}, <code>so</code></li></ul>"
        assert small().kind(name) == kind
    assert small().kind("a") is small().kind("f") is None


def test_a_tool_is_quoted_up_to_its_second_report() -> None:
    text = shown("{{ agreement:said racecheck a }}")
    code = re.search("<code>(.*)</code>", text)[1].split("&#10;")
    assert code == ["Warning: Race &lt;1&gt;", "    and Read", "…", WARNS[-1]]
    assert "…" not in shown("{{ agreement:said racecheck g h }}")
    assert re.search(r'<p class="stamp stamp--fresh".*NVIDIA H200 · .*</p></div>$', text)


def test_the_source_names_the_tool_and_leads_to_the_record() -> None:
    text = shown("{{ agreement:source }}", "zh")
    told = (
        "NVIDIA H200 · 驱动 1.2 · CUDA 13.0 · compute-sanitizer 2025.3 · 2026-11-30 · 提交 0123456 · 下载记录"
    )
    assert re.sub("<[^>]*>", "", text) == told
    assert '<a href="a.json" download>' in text


def test_a_record_of_other_files_says_so(tmp_path: Path) -> None:
    """As a block's stamp does; nothing fails, for who has no GPU cannot make a new one."""
    (tmp_path / "docs/results").mkdir(parents=True)
    (tmp_path / "docs/agreement.toml").write_text("")
    (tmp_path / "same.cuh").write_text("")
    files = {"same.cuh": hashlib.sha256(b"").hexdigest(), "gone.cuh": "0" * 64}
    (tmp_path / "docs/results/agreement.json").write_text(json.dumps({"files": files}))
    assert Agreement.load(tmp_path / "docs").changed == ("gone.cuh",)
    stale = replace(small(), changed=("gone.cuh",))
    assert shown("{{ agreement:source }}", a=stale).endswith(
        '<p class="source">changed since the record: <code>gone.cuh</code></p>'
    )
    assert '<p class="stamp stamp--stale"' in shown("{{ agreement:said racecheck g h }}", a=stale)
    assert "stale" not in shown("{{ agreement:said racecheck g h }}")


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        ("said racecheck z", "no kernel z; there are a, b, c, d, e, f, g h"),
        ("said racecheck f", "racecheck says nothing of f"),
        ("said checker a", "said takes (memcheck|racecheck|initcheck|synccheck) .+"),
        ("table all", "table takes seeded|correct"),
        ("sums all", "sums takes no arguments"),
        ("why nobody", "no kernel is of the kind nobody"),
        ("seeds", "there is no seeds; there are seeded correct compared right device table"),
        ("seeded all", "there is no seeded; "),
    ],
)
def test_what_the_record_lacks_is_named_with_its_place(call: str, complaint: str) -> None:
    with pytest.raises(MissingError) as caught:
        shown(f"# A\n\n{{{{ agreement:{call} }}}}\n")
    assert str(caught.value).startswith(f"docs/en/a.md:3: {{{{ agreement:{call} }}}}: {complaint}")


def test_other_complaints() -> None:
    with pytest.raises(MissingError, match="sums stands on a line of its own"):
        shown("see {{ agreement:sums }}")
    with pytest.raises(MissingError, match=r"expected \{\{ agreement:name argument … \}\}"):
        shown("{{ agreement table }}")
    with pytest.raises(MissingError, match="no record beside"):
        shown("{{ agreement.variants:sums }}")
    a = small()
    a.record["kernels"][0]["memcheck"] = ["FAILED: no end within 60 s"]
    with pytest.raises(MissingError, match="memcheck did not get to its summary of a: FAILED: no end"):
        shown("{{ agreement:sums }}", a=a)


def test_a_record_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"no docs/results/agreement\.json; `make agreement` writes it"):
        Agreement.load(tmp_path)


def test_a_difference_without_a_reason_is_named_and_a_reason_without_a_difference() -> None:
    a = small()
    assert unexplained(a) == []
    why = a.told["why"]
    removed = why.pop(0)
    assert unexplained(a) == ["b: say why (checker-alone)"]
    why[0] = why[0] | {"of": ["c", *removed["of"]]}
    assert unexplained(a) == ["c, b: of different kinds: checker-alone, tools-alone"]
    why[0] = why[0] | {"of": ["c"]}
    why.append(removed | {"of": ["b"]})
    why.append(removed | {"of": ["a"]})
    assert unexplained(a) == ["a: nobody is wrong about it"]
