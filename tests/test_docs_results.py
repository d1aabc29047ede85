"""What pages take from benchmark records is there, is the same in both languages, and is typed nowhere."""

import itertools
import json
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from camp_softmax import reference
from camp_softmax.bench import report
from camp_softmax.bench.measure import Case, Measurement, Outcome
from charts import PEAK, ROW_SUM, WORK, _spread, plot, roofline
from placeholders import MissingError, calls
from prose import Pages, numbers, read
from records import NBSP, Results, digits, duration, number
from results import expand

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "results"
PAGES = read(ROOT)
NAME = re.search(r"^  results: (\S+)", (ROOT / "mkdocs.yml").read_text("utf-8"), re.M)[1]
TIMED = re.compile(r".* (?:[TGM]B/s|µs|ms|ns)")


def typed_complaints(pages: Pages) -> Iterator[str]:
    """Times and bandwidths in prose: no page may state one that no record holds."""
    for page, text in pages.items():
        for found, line in numbers(text).items():
            if TIMED.fullmatch(found):
                yield f"{page}:{line}: {found} is typed by hand; take it from a record: {{{{ results:… }}}}"


def test_no_measurement_is_typed() -> None:
    assert not (found := list(typed_complaints(PAGES))), "\n".join(found)


@pytest.mark.parametrize("line", ["7 µs", "4.1 TB/s", "用了 3 毫秒", "12 ns", "800 GB/s"])
def test_a_typed_measurement_is_named(line: str) -> None:
    (found,) = typed_complaints({"docs/zh/a.md": f"# A\n\n{line}\n"})
    assert found.startswith("docs/zh/a.md:3: ")


def test_sizes_and_references_are_no_measurements() -> None:
    assert not list(typed_complaints({"a.md": "16 KiB, 3 次, {{ results:time auto float32 4096 }}, 7 px"}))


def test_every_reference_is_in_the_record() -> None:
    results = Results.load(FOLDER, NAME)
    for page, text in PAGES.items():
        if calls(text):
            assert page.startswith("docs/"), f"{page}: a README is shown as it is"
            expand(text, results, page.split("/")[1], "", page)


def test_records_are_of_a_gpu_as_the_benchmark_writes_them() -> None:
    for path in FOLDER.iterdir():
        text = path.read_text("utf-8")
        found = json.loads(text)
        assert text == report.dump(found), path.name
        if found["kind"] != "agreement":  # which is no benchmark: tests/test_docs_agreement.py
            assert (found["schema"], found["gpu"]) == (report.SCHEMA, True), path.name


# --- on a small record ------------------------------------------------------------------------------

TIMES = {"copy": 10.0, "torch": 20.0, "cuda.three_pass": 40.0, "cuda.online": 16.0}
STAMP = {"device": "NVIDIA H200", "driver": "1.2", "cuda": "13.0", "torch": "2.11", "tilelang": "0.1.15"}
STAMP |= {"python": "3.12", "date": "2026-11-30", "commit": "0123456789"}


def record(shapes=((1000, 1000), (1024, 1024), (512, 2048))) -> dict:
    """As a run writes it: quack is missing, liger fails, torch is slower on long rows."""
    outcome = Outcome()
    for (N, M), (name, us) in itertools.product(shapes, TIMES.items()):
        us *= 1 + (name == "torch") * (M > 1024)
        line = Measurement("float32", N, M, name, us, us, us, round(10 / us, 4), None, first_s=3.0)
        outcome.measurements.append(line)
    outcome.failures += [
        (Case("softmax", torch.float32, N, M, "cuda"), "liger", "a <b> error") for N, M in shapes
    ]
    return report.record(
        outcome,
        kind="bandwidth",
        operator="softmax",
        stamp=STAMP,
        method={"rounds": 30},
        missing={"quack": "no quack"},
    )


SMALL = Results("small", record())


def shown(text: str, language: str = "en", results: Results = SMALL) -> str:
    return expand(text, results, language, "a.json", "docs/en/a.md")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("ratio torch float32 1024", "0.50"),
        ("gain cuda.online cuda.three_pass float32 1024", "2.50"),
        ("gain copy cuda.three_pass float32 2048", "4.00"),
        ("time cuda.online float32 1024", "16 µs"),
        ("bandwidth torch float32 1024", "0.42 TB/s"),
        ("roof cuda.three_pass float32 1024", "0.62"),
        ("lowest torch float32", "0.25"),
        ("lowest-length torch float32", "2048"),
        ("first torch float32 1024", "3.0 s"),
        ("first-in-calls torch float32 1024", "150,000"),
        ("method rounds", "30"),
        ("stamp device", "NVIDIA H200"),
    ],
)
def test_a_figure_stands_in_the_sentence(call: str, text: str) -> None:
    assert shown(f"- a {{{{ results:{call} }}}}, b").replace(NBSP, " ") == f"- a {text}, b"
    if call.split()[0] in ("ratio", "gain"):
        assert number(SMALL, call.split()[0], call.split()[1:]) == float(text)


def test_figures_have_two_digits_and_the_unit_that_suits_them() -> None:
    assert [digits(value) for value in (1.26, 9.96, 35.4, 62713)] == ["1.3", "10", "35", "63,000"]
    assert [duration(us).replace(NBSP, " ") for us in (9.87, 258.3, 960, 2.14e6)] == [
        "9.9 µs",
        "260 µs",
        "1.0 ms",
        "2.1 s",
    ]


def test_bandwidth_counts_bytes_of_the_dtype() -> None:
    halved = json.loads(json.dumps(record()).replace("float32", "bfloat16"))
    assert number(Results("a", halved), "bandwidth", ["copy", "bfloat16", "1024"]) == pytest.approx(
        4 * 2**20 / 10e-6
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "{{ results:ratio torch float32 4096 }}",
            "torch has not one row length 4096 in float32; there are 1000 1024",
        ),
        ("{{ results:ratio triton float32 1024 }}", "no candidate triton in float32; there are copy torch"),
        (
            "{{ results:ratio quack float32 1024 }}",
            "no candidate quack in float32 (no quack); there are copy",
        ),
        ("{{ results:ratio liger float32 1024 }}", "no candidate liger in float32 (a <b> error); there are"),
        ("{{ results:ratio torch float16 1024 }}", "no dtype float16; there are float32"),
        ("{{ results:ratio torch float32 }}", "ratio takes: candidate dtype length"),
        ("{{ results:roof torch float32 1024 }}", "charts.py does not know 'torch'"),
        ("{{ results:speed torch }}", "there is no speed; there are ratio roof time"),
        ("{{ results: ratio }}", "expected {{ results:name argument … }}"),
        ("{{ results ratio }}", "expected {{ results:name argument … }}"),
        ("{{ results:stamp host }}", "no host in the stamp; there are device driver"),
        ("{{ results:table }}", "table takes at least 1 arguments"),
        ("{{ results:source all }}", "source takes no arguments"),
        ("see {{ results:source }}", "source stands on a line of its own"),
        ("{{ results:table float32 triton }}", "no candidate triton in float32"),
    ],
)
def test_what_the_record_lacks_is_named_with_its_place(text: str, complaint: str) -> None:
    with pytest.raises(MissingError) as caught:
        shown(f"# A\n\n{text}\n")
    assert str(caught.value).startswith(f"docs/en/a.md:3: {text.removeprefix('see ')}: {complaint}")


def test_all_complaints_of_a_page_come_at_once() -> None:
    with pytest.raises(MissingError, match=r"a\.md:1: .*\n.*a\.md:2: .*\n.*a\.md:2: "):
        shown("{{ results:a }}\n{{ results:c }} {{ results:b }}")


def test_a_record_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"there is no docs/results/small\.json"):
        shown("{{ results:stamp device }}", results=Results.load(tmp_path, "small"))
    assert shown("{{ result }}", results=Results.load(tmp_path, "small")) == "{{ result }}"
    (tmp_path / "small.json").write_text(report.dump(record()), "utf-8")
    assert Results.load(tmp_path, "small") == SMALL


def test_code_stays_as_it_is_and_lines_stay_where_they_are() -> None:
    code = "`{{ results:a }}`\n\n```console\n$ {{ results:a }}\n```\n\n"
    text = shown(f"{code}{{{{ results:table float32 }}}}\n\n{{{{ results:plot float32 torch }}}}\nend")
    assert text.startswith(code)
    assert text.split("\n")[-1] == "end"
    assert text.count("\n") == 9
    assert calls(f"{code}{{{{results:ratio  a}}}} {{{{ results:b }}}}") == [":ratio a", ":b"]


def cells(html: str) -> list[list[str]]:
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall("<tr>.*?</tr>", html)]


def test_a_table_has_the_chosen_lengths_and_candidates() -> None:
    head, *rows = cells(shown("{{ results:table float32 1024 2048 torch quack liger cuda.online }}", "zh"))
    assert head == ["行长", "复制，TB/s", "torch", "quack", "liger", "cuda.<wbr>online"]
    assert rows == [
        ["1024", "0.84", "0.50", "–", "–", "<strong>0.62</strong>"],
        ["2048", "0.84", "0.25", "–", "–", "<strong>0.62</strong>"],
    ]
    head, *rows = cells(shown("{{ results:table float32 }}"))
    assert head[2:] == ["torch", "cuda.<wbr>three_<wbr>pass", "cuda.<wbr>online"]
    assert [row[0] for row in rows] == ["1000", "1024", "2048"]
    other = json.loads(json.dumps(record()).replace("float32", "float16"))
    both = record() | {"measurements": record()["measurements"] + other["measurements"]}
    captions = re.findall(
        "<caption><code>(.*?)</code>", shown("{{ results:tables }}", "zh", Results("a", both))
    )
    assert captions == ["float32", "float16"]


def test_what_was_left_out_is_told_with_its_reason() -> None:
    left_out = shown("{{ results:left-out }}")
    assert '<strong>quack</strong>: <code lang="en">no quack</code>' in left_out
    assert "<strong>liger</strong>, float32, 512 × 2048, and 2 more" in left_out
    assert "a &lt;b&gt; error" in left_out
    none = record() | {"missing": {}, "failures": []}
    assert shown("{{ results:left-out }}", "zh", Results("a", none)) == "<p>没有。</p>"


def test_the_source_says_where_and_leads_to_the_record() -> None:
    line = shown("{{ results:source }}")
    told = re.sub("<[^>]*>", "", line)
    assert told.startswith("NVIDIA H200 · driver 1.2 · CUDA 13.0 · torch 2.11 · tilelang 0.1.15")
    assert told.endswith("2026-11-30 · commit 0123456 · download the record")
    assert '<a href="a.json" download>' in line
    assert "<dt><code>rounds</code></dt><dd>30</dd>" in shown("{{ results:own-words }}")


# --- variants ---------------------------------------------------------------------------------------

CHANGED = {"copy": 8.0, "cuda.cluster": 10.0, "variant.slow": 15.0, "variant.same": 10.04}


def beside() -> dict:
    """As `--variants` writes it: one kernel in each case, and a variant that is wrong."""
    outcome = Outcome()
    for name, us in CHANGED.items():
        line = Measurement("float32", 64, 4096, name, us, us, us, round(8 / us, 4), None, first_s=3.0)
        outcome.measurements.append(line)
    case = Case("softmax", torch.float32, 64, 4096, "cuda")
    outcome.failures.append((case, "variant.no-fence", "wrong in row 3"))
    common = {
        "operator": "softmax",
        "stamp": STAMP,
        "method": {"rounds": 30},
        "missing": {"quack": "no quack"},
    }
    return report.record(outcome, kind="variants", **common)


BESIDE = Results("small", record(), {"variants": beside()})


def test_a_factor_is_the_time_of_a_variant_over_that_of_its_kernel() -> None:
    assert shown("{{ results:factor slow float32 4096 }}", results=BESIDE) == "1.50"
    assert number(BESIDE, "factor", ["same", "float32", "4096"]) == pytest.approx(1.004)
    with pytest.raises(MissingError, match=r"no candidate variant\.no-fence in float32 \(wrong in row 3\)"):
        shown("{{ results:factor no-fence float32 4096 }}", results=BESIDE)
    with pytest.raises(MissingError, match=r"there is no docs/results/small-variants\.json"):
        shown("{{ results:factor slow float32 4096 }}")


def test_a_factor_needs_one_kernel_beside_it() -> None:
    two = json.loads(json.dumps(beside()))
    two["measurements"].append(two["measurements"][1] | {"candidate": "cuda.online"})
    with pytest.raises(
        MissingError, match=r"slow: not one kernel in float32 4096, but cuda\.cluster cuda\.online"
    ):
        number(Results("small", record(), {"variants": two}), "factor", ["slow", "float32", "4096"])


def test_the_table_of_variants_has_their_factors_failures_and_source() -> None:
    text = shown("{{ results:variants }}", "zh", BESIDE)
    head, *rows = cells(text)
    assert head == ["改法", "类型", "行长", "用时，倍"]
    assert rows == [
        ["no-fence", "float32", "4096", "结果错"],
        ["same", "float32", "4096", "1.00"],
        ["slow", "float32", "4096", "1.50"],
    ]
    assert '<code lang="en">wrong in row 3</code>' in text
    assert "quack" not in text
    right = {**beside(), "failures": []}
    text = expand(
        "{{ results:variants }}", Results("b", record(), {"variants": right}), "en", "../b.json", "a.md"
    )
    assert "<ul" not in text
    assert '<a href="../b-variants.json" download>' in text


# --- other records beside it ------------------------------------------------------------------------


def others(kind: str, *lines: tuple[str, int, dict]) -> Results:
    """With a record `kind` beside it, of lines (candidate, M, what else it has)."""
    common = {"dtype": "float16", "N": 16}
    measurements = [{**common, "candidate": name, "M": M, **more} for name, M, more in lines]
    return Results("small", record(), {kind: record() | {"kind": kind, "measurements": measurements}})


def test_calls_have_their_times_and_those_of_the_first() -> None:
    lines = ("torch", 256, {"us": 7.0, "ratio": 1.0}), ("auto", 256, {"us": 12.96, "ratio": 1.851})
    first = {"first_s": 0.224, "cached_s": 0.15}
    found = others("calls", lines[0], (*lines[1][:2], lines[1][2] | first))
    _, *rows = cells(shown("{{ results.calls:calls }}", results=found))
    assert [[cell.replace(NBSP, " ") for cell in row] for row in rows] == [
        ["torch", "7.0 µs", "1.00", "–", "–"],
        ["auto", "13 µs", "1.85", "220 ms", "150 ms"],
    ]
    assert shown("{{ results.calls:time auto float16 256 }}", results=found) == f"13{NBSP}µs"
    with pytest.raises(MissingError, match=r"there is no docs/results/small-none\.json"):
        shown("{{ results.none:calls }}", results=found)


def test_attention_stands_beside_torchs() -> None:
    names = "sdpa", "tilelang", "sdpa.causal", "tilelang.causal"
    lines = [(name, 64, {"tflops": 100.0 + i, "ratio": 1 - i / 10}) for i, name in enumerate(names)]
    _, *rows = cells(shown("{{ results.attention:attention }}", "zh", others("attention", *lines)))
    assert rows == [
        ["float16", "64", "否", "100", "101", "0.90"],
        ["float16", "64", "是", "102", "103", "0.70"],
    ]


def test_what_memory_moves_stands_beside_what_is_counted() -> None:
    lines = [("cuda.online", M, {"read": reads, "written": 0.97}) for M, reads in ((4096, 1.02), (9999, 2))]
    found = others(
        "traffic", ("torch", 4096, {"read": 1, "written": 1}), *lines, ("a.cluster", 9999, lines[0][2])
    )
    head, *rows = cells(shown("{{ results.traffic:traffic }}", results=found))
    assert head == ["candidate", "as counted", "row length 4096", "row length 9999"]
    assert rows == [
        ["cuda.<wbr>online", "3", "1.99", "2.97"],
        ["a.<wbr>cluster", "2", "–", "1.99"],
    ]
    assert shown("{{ results.traffic:moved cuda.online float16 9999 }}", results=found) == "2.97"


def test_where_it_falls_short_is_told() -> None:
    lines = [
        {"dtype": "float32", "N": 1, "M": M, "candidate": name, "us": 1.0, "ratio": ratio}
        for M, ratios in (
            (128, (1.0, 0.98, 0.985, 1.2)),
            (256, (1.0, 0.96, 0.5, 0.99)),
            (512, (1.0, 0.98, 1.0, 0.9)),
        )
        for name, ratio in zip(("copy", "auto", "liger", "cuda.online"), ratios, strict=True)
    ]
    found = Results("small", record() | {"measurements": lines})
    _, *rows = cells(shown("{{ results:short 0.97 0.99 }}", results=found))
    assert rows == [["float32", "256", "0.960", "liger 0.500"], ["float32", "512", "0.980", "liger 1.000"]]
    assert shown("{{ results:short 0.9 0.9 }}", results=found) == "<p>Nothing.</p>"


def test_a_record_beside_it_has_its_own_address() -> None:
    found = others("calls", ("torch", 256, {"us": 7.0, "ratio": 1.0}))
    line = expand("{{ results.calls:source }}", found, "en", "../small.json", "a.md")
    assert '<a href="../small-calls.json" download>' in line


def test_all_records_are_loaded(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}", "utf-8")
    (tmp_path / "small.json").write_text(report.dump(record()), "utf-8")
    (tmp_path / "small-variants.json").write_text(report.dump(beside()), "utf-8")
    assert Results.load(tmp_path, "small") == BESIDE


# --- charts -----------------------------------------------------------------------------------------


def test_operations_go_with_the_moves_of_the_model() -> None:
    """And with the table of chapter 11."""
    for rung, (_, moves) in WORK.items():
        assert moves == sum(reference.SCANS[rung]), rung
    counted = runpy.run_path(str(ROOT / "snippets/benchmark/intensity.py"))["WORK"]
    shown = {name: (operations, reads + writes) for name, (reads, writes, _, operations) in counted.items()}
    names = {
        "three_pass": "three passes",
        "online": "two scans",
        "single_read": "one read",
        "cluster": "one read",
    }
    assert {rung: shown[name] for rung, name in names.items()} == WORK
    assert shown["row sum"] == ROW_SUM


def drawn(text: str, language: str) -> ElementTree.Element:
    return ElementTree.fromstring(shown(text, language))


def texts(svg: ElementTree.Element) -> list[str]:
    return ["".join(node.itertext()) for node in svg.iter("{http://www.w3.org/2000/svg}text")]


CHARTS = [
    "{{ results:map float32 quack cuda.three_pass cuda.online }}",
    "{{ results:plot float32 torch quack cuda.three_pass cuda.online }}",
    "{{ results:roofline float32 1024 cuda.three_pass cuda.online }}",
]


@pytest.mark.parametrize("chart", CHARTS)
def test_charts_agree_between_languages_and_have_no_colour_of_their_own(chart: str) -> None:
    zh, en = (shown(chart, language) for language in ("zh", "en"))
    assert re.findall("<(?:path|rect|circle|polyline)[^>]*>", zh) == re.findall(
        "<(?:path|rect|circle|polyline)[^>]*>", en
    )
    for language, svg in ("zh", zh), ("en", en):
        tree = ElementTree.fromstring(svg)
        assert {"cuda.online", "cuda.three_pass"} <= set(texts(tree))
        assert "\n" not in svg
        assert not re.search("#[0-9a-fA-F]{3}", svg)
        title, description = tree[0].text, tree[1].text
        assert bool(re.search("[\u4e00-\u9fff]", title)) == (language == "zh")
        assert "cuda.online" in description


def test_a_map_has_a_cell_for_each_length_and_frames_the_fastest() -> None:
    turned = record()
    for m in turned["measurements"]:  # on long rows three passes win, on others they come near
        if m["candidate"] == "cuda.three_pass" and m["M"] >= 1024:
            m["ratio"] = 0.9 if m["M"] == 2048 else 0.62
    svg = ElementTree.fromstring(shown(CHARTS[0], "en", Results("a", turned)))
    rects = list(svg.iter("{http://www.w3.org/2000/svg}rect"))
    full = [(node.get("y"), float(node.get("fill-opacity"))) for node in rects if node.get("fill") != "none"]
    frames = [(node.get("x"), node.get("y")) for node in rects if node.get("fill") == "none"]
    first, second = dict.fromkeys(y for y, _ in full)  # three_pass, online
    assert [opacity for _, opacity in full] == [0.02, 0.24, 0.73, 0.24, 0.24, 0.24]  # the ratio cubed
    short, middle, long = (node.get("x") for node in rects[:3])
    assert frames == [(middle, first), (long, first), (short, second), (middle, second)]
    assert {"1000", "1024", "2048"} <= set(texts(svg))
    assert svg[1].text.endswith("2048: cuda.three_pass, 0.90 of the copy")


def test_a_plot_joins_powers_of_two_and_names_each_line() -> None:
    svg = drawn(CHARTS[1], "en")
    lines = [node.get("points").split() for node in svg.iter("{http://www.w3.org/2000/svg}polyline")]
    assert [len(line) for line in lines] == [2, 2, 2]  # quack is missing, 1000 is a point
    assert len(list(svg.iter("{http://www.w3.org/2000/svg}circle"))) == 3
    assert {"torch", "copy = 1", "1024", "2048"} <= set(texts(svg))
    (x, torch_y), (same_x, three_y), _ = (map(float, line[-1].split(",")) for line in lines)
    assert x == same_x
    assert torch_y == three_y  # both at 0.25 there
    rules = [node.get("d") for node in svg.iter("{http://www.w3.org/2000/svg}path")][:3]
    zero, half, one = (float(re.match(r"M[\d.]+ ([\d.]+)H", rule)[1]) for rule in rules)
    assert half == pytest.approx((zero + one) / 2, abs=0.1)
    assert torch_y == pytest.approx((zero + half) / 2, abs=0.1)
    assert one > 16  # the copy's label is above its line


def test_points_of_a_roofline_lie_where_bytes_and_time_put_them() -> None:
    """At 0.6 of the copy's bandwidth for all that it moves, a point lies that far below the slope."""
    lines = {name: SMALL.measurement(name, "float32", "1024") for name in ("cuda.three_pass", "cuda.online")}
    svg = ElementTree.fromstring(roofline(lines, 2**23 / 10e-6, "NVIDIA H200", "float32", "en"))
    row_sum, *points = (
        (float(node.get("cx")), float(node.get("cy")))
        for node in svg.iter("{http://www.w3.org/2000/svg}circle")
    )
    assert points[0][0] == row_sum[0]  # 5 operations for 20 bytes, 1 for 4
    decade = (264 - 24) / 3
    below = [number(SMALL, "roof", [name, "float32", "1024"]) for name in lines]
    assert points[0][1] - row_sum[1] == pytest.approx(
        -decade * torch.tensor(below[0]).log10().item(), abs=0.2
    )
    with pytest.raises(KeyError, match="Other"):
        roofline(lines, 1e12, "Other", "float32", "en")


def test_labels_are_near_their_lines() -> None:
    assert _spread([10, 12, 90], 16, 0, 100) == [10, 26, 90]
    assert _spread([95, 99], 16, 0, 100) == [84, 100]


def test_labels_keep_their_distance_and_stay_inside() -> None:
    for wanted in ([10.0] * 5, [0.0, 3, 50, 52, 100], [99.0, 99, 100]):
        places = _spread(wanted, 16, 0, 100)
        assert all(low + 16 <= high for low, high in itertools.pairwise(places))
        assert places[-1] <= 100


def test_one_length_alone_can_be_drawn() -> None:
    assert "polyline" in plot({"torch": SMALL.series("torch", "float32")[:1]}, "float32", "en")
    assert PEAK["NVIDIA H200"] == 132 * 128 * 2 * 1.98e9 // 1e11 * 1e11
