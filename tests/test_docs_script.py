"""The script of the lesson: it fits its time, shows what exists, and says no number that was not computed."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from blocks import Fence, parse
from prose import NUMBER, SPAN, equations, headings
from script import Cue, Script, Segment, spoken, srt, subtitles, vtt
from test_docs_fences import INCLUDE, scripts
from test_docs_fences import shown as shown_lines

ROOT = Path(__file__).parents[1]
LANGUAGES = ("zh", "en")
SHORTEST, LONGEST = 15 * 60, 20 * 60
TALK = 0.7  # of a cue's time at least; the rest is for switching and running
WIDEST = 84  # columns of a subtitle: two lines of 42; a Chinese character takes two
# A number that names one of several is no claim: 第 2 步 (prose.NUMBER knows), step 2, the 256th.
ORDINAL = re.compile(r"\b(?:step|pass|chapter) \d+|\b\d+(?:st|nd|rd|th)\b", re.IGNORECASE)
SPELLED = re.compile(
    r"[百千万亿]分|[一二三四五六七八九]?[十百千万亿]+[一二三四五六七八九零点]"
    r"|\b(?:hundred|thousand|million|percent)\b|点[零一二三四五六七八九]"
)


def load(language: str) -> Script:
    return Script.load(ROOT / "docs" / "script" / f"{language}.toml")


def width(line: str) -> int:
    return sum(2 if ord(letter) > 0x2E80 else 1 for letter in line.replace("`", ""))


def plan_complaints(script: Script) -> Iterator[str]:
    """A lesson too short or too long, cues that the words overrun or leave empty, subtitles too wide."""
    if not SHORTEST <= script.seconds <= LONGEST:
        yield f"the lesson takes {script.seconds} s, not {SHORTEST} to {LONGEST}"
    for cue in script.cues:
        talk = spoken(" ".join(cue.say), script.language)
        if not TALK * cue.seconds <= talk <= cue.seconds:
            yield f"{cue.id}: {talk:.0f} s of words in {cue.seconds} s"
        for line in cue.say:
            if width(line) > WIDEST:
                yield f"{cue.id}: {width(line)} columns, more than {WIDEST}: {line}"


def on_page(fence: Fence) -> list[str]:
    """The names by which a cue may show a fence: commands, for the reader too, and included files."""
    includes = [
        match["file"] + (f":{match['section']}" if match["section"] else "")
        for match in INCLUDE.finditer(fence.body)
    ]
    lines = [line.removeprefix("$ ") for line in fence.body.splitlines()]
    return includes or (lines if fence.runs or fence.info == "console" else [])


def page_of(cue: Cue, root: Path, language: str) -> str:
    path = root / "docs" / language / cue.page.partition("#")[0]
    return path.read_text("utf-8") if path.is_file() else ""


def shown_complaints(script: Script, root: Path) -> Iterator[str]:
    """Pages and places that are not there, and what a page does not show."""
    for cue in script.cues:
        text, place = page_of(cue, root, script.language), cue.page.partition("#")[2]
        if place not in {heading.id for heading in headings(text) if heading.level > 1}:
            yield f"{cue.id}: there is no {cue.page}"
        names = {name for fence in parse(text) for name in on_page(fence)}
        for name in cue.show:
            if name not in names:
                yield f"{cue.id}: {cue.page} does not show {name}"


def evidence(cue: Cue, root: Path, language: str) -> str:
    """What stands on the screen: the code and the outputs that the cue shows, and the page's formulas."""
    text = page_of(cue, root, language)
    parts = [formula.tex for equation in equations(text) for formula in equation.formulas]
    for fence in parse(text):
        if not set(on_page(fence)) & set(cue.show):
            continue
        parts += [fence.body, fence.expected.body if fence.expected else ""]
        parts += [(root / name).read_text("utf-8") for name in scripts(fence)]
        for include in INCLUDE.finditer(fence.body):
            source = (root / include["file"]).read_text("utf-8")
            parts += shown_lines(source, include["section"])
    return "\n".join(parts)


def numbers(text: str) -> list[float]:
    return [float(match["value"].replace(",", "")) for match in NUMBER.finditer(text)]


def said_numbers(cue: Cue) -> list[float]:
    return numbers(ORDINAL.sub("", SPAN.sub("", "\n".join(cue.say))))


def number_complaints(script: Script, root: Path) -> Iterator[str]:
    """Numbers that nothing on the screen computed, code that is not there, numbers hidden in words."""
    for cue in script.cues:
        on_screen = evidence(cue, root, script.language)
        found = {abs(float(number)) for number in re.findall(r"(?<![A-Za-z_])\d+(?:\.\d+)?", on_screen)}
        found |= {float(number.replace(",", "")) for number in re.findall(r"\d{1,3}(?:,\d{3})+", on_screen)}
        for number in said_numbers(cue):
            if number not in found:
                yield f"{cue.id}: nothing that it shows has {number:g}"
        for span in SPAN.finditer("\n".join(cue.say)):
            if span[0].strip("`") not in on_screen:
                yield f"{cue.id}: nothing that it shows has {span[0]}"
        for match in SPELLED.finditer("\n".join(cue.say)):
            yield f"{cue.id}: {match[0]}: write numbers as digits, which tests read"


def language_complaints(ours: Script, theirs: Script) -> Iterator[str]:
    """Cues that differ in more than their words, and numbers that only one language says."""
    sides = [
        [
            (segment.id, [(c.id, c.seconds, c.page, c.show) for c in segment.cues])
            for segment in script.segments
        ]
        for script in (ours, theirs)
    ]
    if sides[0] != sides[1]:
        yield "the languages have different cues"
        return
    for one, other in zip(ours.cues, theirs.cues, strict=True):
        if apart := set(said_numbers(one)) ^ set(said_numbers(other)):
            yield f"{one.id}: only one language says {', '.join(f'{number:g}' for number in sorted(apart))}"


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_words_fit_the_plan(language: str) -> None:
    script = load(language)
    for segment in script.segments:
        talk = sum(spoken(" ".join(cue.say), language) for cue in segment.cues)
        print(f"{language} {segment.id}: {talk / 60:.1f} of {segment.seconds / 60:g} minutes are words")
    assert list(plan_complaints(script)) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_shown_exists(language: str) -> None:
    assert list(shown_complaints(load(language), ROOT)) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_spoken_number_is_on_the_screen(language: str) -> None:
    script = load(language)
    assert sum(len(said_numbers(cue)) for cue in script.cues) > 50
    assert list(number_complaints(script, ROOT)) == []


def test_both_languages_have_the_same_cues() -> None:
    assert list(language_complaints(load("zh"), load("en"))) == []


def test_a_cue_has_a_name_of_its_own() -> None:
    names = [cue.id for cue in load("zh").cues] + [segment.id for segment in load("zh").segments]
    assert len(names) == len(set(names))


CLOCK = r"(\d\d):([0-5]\d):([0-5]\d)[.,](\d{3})"


def read_subtitles(text: str, point: str) -> list[tuple[int, int, str]]:
    """A strict reader of both formats: begin and end in milliseconds, and the text, of each subtitle."""
    blocks = text.removeprefix("WEBVTT\n\n").removesuffix("\n").split("\n\n")
    found = []
    for number, block in enumerate(blocks, 1):
        name, time, *lines = block.split("\n")
        clock = CLOCK.replace("[.,]", re.escape(point))
        match = re.fullmatch(f"{clock} --> {clock}", time)
        assert match, time
        assert lines
        assert all(lines)
        assert "-->" not in name + "".join(lines)
        if point == ",":
            assert name == str(number)
        hours = [int(part) for part in match.groups()]
        begin, end = ((60 * (60 * h + m) + s) * 1000 + ms for h, m, s, ms in (hours[:4], hours[4:]))
        found.append((begin, end, "\n".join(lines)))
    return found


@pytest.mark.parametrize("language", LANGUAGES)
def test_subtitles_follow_each_other_to_the_end(language: str) -> None:
    script = load(language)
    assert vtt(script).startswith("WEBVTT\n\n")
    captions = read_subtitles(vtt(script), ".")
    assert captions == read_subtitles(srt(script), ",")
    ends = [0] + [end for _, end, _ in captions]
    assert [begin for begin, _, _ in captions] == ends[:-1]
    assert ends[-1] == 1000 * script.seconds
    assert all(begin + 500 <= end for begin, end, _ in captions)
    lines = [line.replace("`", "") for cue in script.cues for line in cue.say]
    assert [text for _, _, text in captions] == lines
    starts = {begin for begin, _, _ in captions}
    assert starts >= {1000 * cue.start for cue in script.cues}


def test_markup_is_escaped_where_the_format_has_markup() -> None:
    cue = Cue("a", "", 0, 10, "", "", (), ("1 < 2 & 3",))
    script = Script("en", (Segment("s", "", (cue,)),))
    assert "1 &lt; 2 &amp; 3" in vtt(script)
    assert "1 < 2 & 3" in srt(script)
    assert [text for *_, text in subtitles(script)] == ["1 < 2 & 3"]


PAGE = """# One

## Part {#part}

```py title="snippets/a.py"
--8<-- "snippets/a.py"
```

```bash
python snippets/a.py
```

<!--pytest-codeblocks:expected-output-->

```text
m = 10,000, s = 0.5
```

```bash
python snippets/b.py
```

<!--pytest-codeblocks:expected-output-->

```text
7
```
"""
CUE = Cue("a", "", 0, 10, "", "one.md#part", ("python snippets/a.py",), ("`m = 9` is 10,000, step 8.",))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in {
        "docs/en/one.md": PAGE,
        "snippets/a.py": "m = 9\n",
        "snippets/b.py": "",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({}, None),
        ({"say": ("The sum is 0.5.",)}, None),
        ({"say": ("The sum is 0.6.",)}, "a: nothing that it shows has 0.6"),
        ({"say": ("It prints 7.",)}, "a: nothing that it shows has 7"),
        ({"say": ("It prints 7.",), "show": ("python snippets/b.py",)}, None),
        ({"say": ("Here `m = 8`.",)}, "a: nothing that it shows has `m = 8`"),
        ({"say": ("Ten thousand rows.",)}, "a: thousand: write numbers as digits, which tests read"),
        ({"say": ("一万零五行。",)}, "a: 一万零: write numbers as digits, which tests read"),
        ({"page": "two.md#part"}, "a: there is no two.md#part"),
        ({"page": "one.md#whole"}, "a: there is no one.md#whole"),
        ({"show": ("python snippets/c.py",)}, "a: one.md#part does not show python snippets/c.py"),
    ],
)
def test_what_is_not_on_the_screen_is_named(tree: Path, change: dict, complaint: str | None) -> None:
    script = Script("en", (Segment("s", "", (replace(CUE, **change),)),))
    found = [*shown_complaints(script, tree), *number_complaints(script, tree)]
    assert found == [] if complaint is None else complaint in found


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"seconds": 1000, "say": ("word",) * 2000}, None),
        ({"seconds": 1000, "say": ("word " * 1000,)}, "a: 429 s of words in 1000 s"),
        ({"seconds": 1000, "say": ("word " * 2400,)}, "a: 1029 s of words in 1000 s"),
        ({"say": ("字" * 43,)}, f"a: 86 columns, more than 84: {'字' * 43}"),
        ({"seconds": 1300}, "the lesson takes 1300 s, not 900 to 1200"),
        ({"seconds": 800}, "the lesson takes 800 s, not 900 to 1200"),
    ],
)
def test_a_plan_that_does_not_hold_is_named(change: dict, complaint: str | None) -> None:
    found = list(plan_complaints(Script("en", (Segment("s", "", (replace(CUE, **change),)),))))
    assert found == [] if complaint is None else complaint in found


def test_languages_that_differ_are_named() -> None:
    def script(**change: object) -> Script:
        return Script("en", (Segment("s", "", (replace(CUE, **change),)),))

    assert list(language_complaints(script(), script(title="x", screen="y"))) == []
    for change in ({"seconds": 11}, {"page": "two.md#part"}, {"show": ()}, {"id": "b"}):
        assert list(language_complaints(script(), script(**change))) == ["the languages have different cues"]
    assert list(language_complaints(script(), script(say=("It is 7.",)))) == [
        "a: only one language says 7, 10000"
    ]
