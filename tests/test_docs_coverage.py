"""Every fact of a chapter is shown there: by the output of a block, a tested formula, or code that runs.

docs/facts/<chapter>.toml lists the facts of docs/<language>/**/<chapter>.md, each with its evidence:
`output` stands in the expected output of a block that runs on the page, `equation` is the id of a formula
that a property test holds, `code` stands in a file that the page includes, `record` is a placeholder on the
page, which may be held to a bound: `gain a b float32 4096 > 1`. On the page of the script, `cue` is the name
and the seconds of one, `said` stands in what is said or shown. Several strings are all needed.
"""

import json
import re
import tomllib
from pathlib import Path

import pytest

from blocks import parse
from placeholders import calls
from prose import equations
from records import Results, number
from script import Script

ROOT = Path(__file__).parents[1]
INCLUDE = re.compile(r'--8<-- "([^":]+)(?::\w+)?"')
KINDS = {"output", "equation", "code", "record", "cue", "said"}
WHOLE = {"equation", "record", "cue"}  # a line each, of which a part proves nothing
BOUND = re.compile(r"(?P<call>.*?) (?P<sign>[<>]) (?P<bound>[\d.]+)")


def shown(root: Path, page: Path) -> dict[str, str]:
    """What a page shows, by the kind of evidence: one text each."""
    text = page.read_text("utf-8")
    fences = parse(text)
    included = [root / name for fence in fences for name in INCLUDE.findall(fence.body)]
    language = page.relative_to(root / "docs").parts[0]
    cues = Script.load(root / f"docs/script/{language}.toml").cues if "<!-- script -->" in text else []
    return {
        "output": "\n".join(fence.expected.body for fence in fences if fence.expected),
        "equation": "\n".join(equation.id for equation in equations(text)),
        "code": "\n".join(path.read_text("utf-8") for path in included),
        "record": "\n".join(call.removeprefix(":") for call in calls(text)),
        "cue": "\n".join(f"{cue.id} {cue.seconds}" for cue in cues),
        "said": "\n".join(line for cue in cues for line in (cue.screen, *cue.show, *cue.say)),
    }


def holds(call: str, results: Results) -> bool:
    """Whether a bound on a figure, if there is one, is that of the record."""
    if not (match := BOUND.fullmatch(call)):
        return True
    name, *arguments = match["call"].split()
    value, bound = number(results, name, arguments), float(match["bound"])
    return value > bound if match["sign"] == ">" else value < bound


def gaps(root: Path) -> tuple[int, list[str]]:
    """How many facts there are, and what is wrong or not shown in some language."""
    count, found = 0, []
    results = Results.load(root / "docs/results", "nvidia-h200")
    for path in sorted((root / "docs/facts").glob("*.toml")):
        facts = tomllib.loads(path.read_text("utf-8"))
        count += len(facts)
        for language in ("zh", "en"):
            pages = [*(root / "docs" / language).rglob(f"{path.stem}.md")]
            if len(pages) != 1:
                found.append(f"{path.name}: docs/{language} has {len(pages)} pages of that name, not one")
                continue
            (page,) = pages
            evidence = shown(root, page)
            for fact, wanted in facts.items():
                if not wanted or set(wanted) - KINDS:
                    found.append(f"{path.name}: {fact}: expected some of {', '.join(sorted(KINDS))}")
                for kind in sorted(set(wanted) & KINDS):
                    strings = [wanted[kind]] if isinstance(wanted[kind], str) else wanted[kind]
                    lines = evidence[kind].split("\n")
                    for string in strings or [""]:
                        call = BOUND.sub(r"\g<call>", string) if kind == "record" else string
                        if not string or call not in (lines if kind in WHOLE else evidence[kind]):
                            found.append(f"{page.relative_to(root)}: {fact}: no {kind} {string!r}")
                        elif kind == "record" and not holds(string, results):
                            found.append(f"{page.relative_to(root)}: {fact}: not so: {string}")
    return count, found


def test_every_fact_is_shown() -> None:
    count, found = gaps(ROOT)
    missing = len({problem.split(": ")[1] for problem in found})
    print(f"coverage: {count - missing} of {count} facts, {100 * (count - missing) // max(count, 1)}%")
    assert count
    assert found == []


PAGE = """# One

{{ results:gain a b float32 8 }}
<!-- script -->

<div class="equation" id="eq-a" markdown>
$$ a \\tag{1} $$
</div>

```py title="snippets/a.py"
--8<-- "snippets/a.py"
```

```bash
python snippets/a.py
```

<!--pytest-codeblocks:expected-output-->

```text
m = 9
```

```text
not an output
```
"""

LINES = [{"candidate": name, "dtype": "float32", "M": 8, "us": us} for name, us in (("a", 5), ("b", 10))]
SCRIPT = """
[[segment]]
id = "concept"
title = ""

[[segment.cue]]
id = "opening"
title = ""
seconds = 30
screen = "run it"
page = ""
say = "You know copy."
"""


@pytest.mark.parametrize(
    ("facts", "complaint"),
    [
        ('["a"]\noutput = "m = 9"\nequation = "eq-a"\ncode = "print(9)"\n', None),
        ('["a"]\noutput = ["m = 9", "m = 8"]\n', "docs/zh/tutorial/one.md: a: no output 'm = 8'"),
        ('["a"]\noutput = "not an output"\n', "no output 'not an output'"),
        ('["a"]\nequation = "eq"\n', "no equation 'eq'"),
        ('["a"]\ncode = "print(8)"\n', "no code 'print(8)'"),
        ('["a"]\nrecord = "gain a b float32 8"\n', None),
        ('["a"]\nrecord = "gain a b float32 8 > 1.9"\n', None),
        ('["a"]\nrecord = "gain a b float32 8 < 2.1"\n', None),
        ('["a"]\nrecord = "gain a b float32 8 > 2.1"\n', "a: not so: gain a b float32 8 > 2.1"),
        ('["a"]\nrecord = "gain a b"\n', "no record 'gain a b'"),
        ('["a"]\nrecord = "gain b a float32 8 < 1"\n', "no record 'gain b a float32 8 < 1'"),
        ('["a"]\nfigure = "fig-a"\n', "expected some of code, cue, equation, output, record, said"),
        ('["a"]\n', "expected some of code, cue, equation, output, record, said"),
        ('["a"]\ncue = "opening 30"\nsaid = ["copy", "run it"]\n', None),
        ('["a"]\ncue = "opening 3"\n', "no cue 'opening 3'"),
        ('["a"]\nsaid = "row sum"\n', "no said 'row sum'"),
        ('["a"]\noutput = ""\n', "no output ''"),
    ],
)
def test_what_is_not_shown_is_named(tmp_path: Path, facts: str, complaint: str | None) -> None:
    for name, text in {
        "docs/zh/tutorial/one.md": PAGE,
        "docs/en/tutorial/one.md": PAGE,
        "docs/script/zh.toml": SCRIPT,
        "docs/script/en.toml": SCRIPT,
        "snippets/a.py": "print(9)\n",
        "docs/facts/one.toml": facts,
        "docs/results/nvidia-h200.json": json.dumps({"measurements": LINES}),
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    count, found = gaps(tmp_path)
    assert count == 1
    if complaint is None:
        assert found == []
    else:
        assert complaint in "\n".join(found)


def test_a_chapter_that_one_language_lacks_is_named(tmp_path: Path) -> None:
    (tmp_path / "docs/facts").mkdir(parents=True)
    (tmp_path / "docs/facts/one.toml").write_text('["a"]\noutput = "m"\n')
    assert gaps(tmp_path)[1][0] == "one.toml: docs/zh has 0 pages of that name, not one"
