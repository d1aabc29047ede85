"""Both languages have the same pages, and on them the same code, formulas, anchors and numbers."""

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from blocks import parse
from placeholders import calls
from prose import (
    FORMULA,
    SPAN,
    Pages,
    equations,
    formulas,
    headings,
    language,
    line_of,
    numbers,
    read,
    unfenced,
    without,
)

ROOT = Path(__file__).parents[1]
PAGES = read(ROOT)
PATH = re.compile(r"(?:tests|snippets|camp_softmax|docs)/[\w./-]+")
REFERENCE = re.compile(r"[(（](\d+)[)）]")
SUP = re.compile(r"<sup>([^<]*)</sup>")
POWERS = re.compile(r"(?<!\+ )e<sup>[−\d .]+</sup>(?: = e<sup>[−\d .]+</sup>)* = (?P<value>\d+\.\d+)")
TERM = re.compile(r"[-+]?[\d.]+")

LANGUAGES = ("zh", "en")


def pairs(pages: Pages) -> Iterator[tuple[str, str, str]]:
    """Each page that both languages have, by its path within them."""
    ours, theirs = (language(pages, name) for name in LANGUAGES)
    for path in sorted(ours.keys() & theirs.keys()):
        yield path, ours[path], theirs[path]


def page_complaints(pages: Pages) -> Iterator[str]:
    """Pages that one language lacks."""
    ours, theirs = (language(pages, name).keys() for name in LANGUAGES)
    for here, there, missing in (("zh", "en", ours - theirs), ("en", "zh", theirs - ours)):
        for path in sorted(missing):
            yield f"docs/{here}/{path}:1: docs/{there}/{path} is missing; translate the page"


def fence_complaints(pages: Pages) -> Iterator[str]:
    """The first fence of a page in which the languages differ."""
    for path, *texts in pairs(pages):
        ours, theirs = (parse(text) for text in texts)
        shown = [[(f.info, f.body, f.marks, f.expected is None) for f in side] for side in (ours, theirs)]
        if shown[0] != shown[1]:
            equal = next((i for i, (a, b) in enumerate(zip(*shown, strict=False)) if a != b), None)
            at = min(len(ours), len(theirs)) if equal is None else equal
            zh, en = (side[at].line if at < len(side) else None for side in (ours, theirs))
            yield (
                f"docs/zh/{path}:{zh or 1}: fence {at + 1} is not that of docs/en/{path}:{en or 1};"
                " the fences must be the same, character by character"
            )


def formula_complaints(pages: Pages) -> Iterator[str]:
    """Display formulas that differ or come in another order, inline formulas that one lacks."""
    for path, *texts in pairs(pages):
        sides = [formulas(text) for text in texts]
        displays = [[formula.tex for formula in side if formula.display] for side in sides]
        inlines = [Counter(formula.tex for formula in side if not formula.display) for side in sides]
        for here, there, mine, other in (("zh", "en", 0, 1), ("en", "zh", 1, 0)):
            missing = Counter(displays[mine]) - Counter(displays[other])
            missing += inlines[mine] - inlines[other]
            for tex in missing:
                line = next(formula.line for formula in sides[mine] if formula.tex == tex)
                yield f"docs/{here}/{path}:{line}: ${tex}$ is missing in docs/{there}/{path}"
        if displays[0] != displays[1] and Counter(displays[0]) == Counter(displays[1]):
            yield f"docs/zh/{path}:1: docs/en/{path} has its display formulas in another order"


def heading_complaints(pages: Pages) -> Iterator[str]:
    """Headings without an id of their own, and ids that the languages do not share in order."""
    for name in LANGUAGES:
        for path, text in language(pages, name).items():
            for heading in headings(text):
                if heading.level > 1 and heading.id is None:
                    where = f"docs/{name}/{path}:{heading.line}"
                    yield f"{where}: add {{#id}}, the same in both languages"
    for path, *texts in pairs(pages):
        zh, en = ([(heading.level, heading.id) for heading in headings(text)] for text in texts)
        if zh != en:
            yield f"docs/zh/{path}:1: headings {zh} are not those of docs/en/{path}, {en}"


def number_complaints(pages: Pages) -> Iterator[str]:
    """Decimals and numbers with units that the prose of one language lacks."""
    for path, *texts in pairs(pages):
        zh, en = (numbers(text) for text in texts)
        for here, there, mine, other in (("zh", "en", zh, en), ("en", "zh", en, zh)):
            for number in sorted(mine.keys() - other.keys()):
                yield (
                    f"docs/{here}/{path}:{mine[number]}: {number} is missing in the prose of"
                    f" docs/{there}/{path}; state the same numbers in both languages"
                )


def record_complaints(pages: Pages) -> Iterator[str]:
    """What a page takes from a record, and the other language does not."""
    for record, (path, *texts) in itertools.product(("results", "agreement"), pairs(pages)):
        zh, en = (dict.fromkeys(calls(text, record)) for text in texts)
        for here, there, mine, other in (("zh", "en", zh, en), ("en", "zh", en, zh)):
            for call in mine:
                if call not in other:
                    yield f"docs/{here}/{path}:1: {{{{ {record}{call} }}}} is missing in docs/{there}/{path}"


def code_complaints(pages: Pages) -> Iterator[str]:
    """Assignments in code spans that one language lacks, and paths that are not there.

    Other spans may differ: each language says in words what the other may say in code.
    """
    for path, *texts in pairs(pages):
        zh, en = ({"".join(span.split()) for span in spans(text) if "=" in span} for text in texts)
        for here, there, mine, other in (("zh", "en", zh, en), ("en", "zh", en, zh)):
            for span in sorted(mine - other):
                yield f"docs/{here}/{path}:1: `{span}` is missing in docs/{there}/{path}"
    for page, text in pages.items():
        for span in spans(text):
            if PATH.fullmatch(span) and not (ROOT / span).exists():
                yield f"{page}:1: there is no `{span}`"


def spans(text: str) -> list[str]:
    """What stands in backticks, without comments in Chinese."""
    found = (match[0].strip("`").strip() for match in SPAN.finditer(unfenced(text)))
    return [span for span in found if not re.search(r"[\u3000-\u9fff\uff00-\uffef]", span)]


def reference_complaints(pages: Pages) -> Iterator[str]:
    """`(7)` on a page without seven equations; how often the languages refer to one is theirs to choose."""
    for page, text in pages.items():
        numbers = {str(number) for number in range(1, len(equations(text)) + 1)}
        for number in sorted(
            set(REFERENCE.findall(without(FORMULA, without(SPAN, unfenced(text))))) - numbers
        ):
            yield f"{page}:1: ({number}) is no equation of this page"


def power_complaints(pages: Pages) -> Iterator[str]:
    """`e<sup>4 − 9</sup> = e<sup>−5</sup> = 0.0067` where it is not so, to the digits shown."""
    for page, text in pages.items():
        prose = without(SPAN, unfenced(text))
        for match in POWERS.finditer(prose):
            values = [
                math.exp(sum(map(float, TERM.findall(plain(power))))) for power in SUP.findall(match[0])
            ]
            last = match["value"]
            digits = len(last.partition(".")[2])
            if (
                any(not math.isclose(value, values[0]) for value in values)
                or f"{values[0]:.{digits}f}" != last
            ):
                yield f"{page}:{line_of(prose, match.start())}: {match[0]} is not so: {values}"


def plain(power: str) -> str:
    """The exponent without spaces, and with the minus that Python reads."""
    return "".join(power.split()).replace("−", "-")


GUARDS = [
    code_complaints,
    reference_complaints,
    power_complaints,
    page_complaints,
    fence_complaints,
    formula_complaints,
    heading_complaints,
    number_complaints,
    record_complaints,
]
Guard = Callable[[Pages], Iterator[str]]


@pytest.mark.parametrize("guard", GUARDS)
def test_the_languages_agree(guard: Guard) -> None:
    assert PAGES, "there are no pages"
    assert not (found := list(guard(PAGES))), "\n".join(found)


ZH = """\
# 标题 {{ results:call a }} {{ agreement:a }}

## 合并 {#merge}

用 $m$ 在 7 微秒内读 4.1 TB/s，0.5 倍，第 2 次。`block_m=4`，e<sup>4 − 9</sup> = e<sup>−5</sup> = 0.0067

$$
s = s_a \\\\
  + s_b
$$

$$x$$

```bash
ls
```
"""
EN = """\
# Title {{ agreement:a }}

## Merge { #merge .wide }

In 7 µs, reads 4.1 TB/s and 0.5× by $m$ ([1.5](https://a.b/2.5)), `$z$`. `block_m = 4` 0.0067 <!-- 3.5 -->

{{results:call  a}}

$$s = s_a \\\\ + s_b$$

$$
x
$$

```bash
ls
```
"""


def both(zh: str, en: str) -> Pages:
    return {"docs/zh/a.md": zh, "docs/en/a.md": en.replace("[1.5]", "[it]")}


@pytest.mark.parametrize("guard", GUARDS)
def test_a_right_translation_passes(guard: Guard) -> None:
    assert list(guard(both(ZH, EN))) == []


@pytest.mark.parametrize(
    ("guard", "old", "new", "complaints"),
    [
        (fence_complaints, "```bash", "```console", ["docs/zh/a.md:14: fence 1 is not that of"]),
        (fence_complaints, "ls\n", "ls -l\n", ["docs/zh/a.md:14: fence 1 is not"]),
        (fence_complaints, "```bash\nls\n```\n", "", ["docs/zh/a.md:14: fence 1 is not"]),
        (fence_complaints, "```bash", "<!--pytest.mark.gpu-->\n```bash", ["docs/zh/a.md:14"]),
        (formula_complaints, "$m$", "$n$", ["zh/a.md:5: $m$ is missing in", "en/a.md:5: $n$ is"]),
        (formula_complaints, "$m$", "$m$, $m$", ["docs/en/a.md:5: $m$ is missing in docs/zh"]),
        (formula_complaints, "$$\nx\n$$", "", ["docs/zh/a.md:12: $x$ is missing in docs/en"]),
        (formula_complaints, "$m$", "$m$\n\n$$x$$\n", ["docs/en/a.md:7: $x$ is missing"]),
        (
            heading_complaints,
            " { #merge .wide }",
            "",
            ["docs/en/a.md:3: add {#id}", "docs/zh/a.md:1"],
        ),
        (
            heading_complaints,
            "#merge",
            "#merging",
            ["docs/zh/a.md:1: headings [(1, None), (2, 'merge"],
        ),
        (heading_complaints, "## Merge", "### Merge", ["docs/zh/a.md:1: headings"]),
        (code_complaints, "block_m = 4", "block_m=2", ["`block_m=4` is missing", "`block_m=2` is"]),
        (code_complaints, "`$z$`", "`docs/none.md`", ["docs/en/a.md:1: there is no `docs/none.md`"]),
        (reference_complaints, "`$z$`", "see (1)", ["docs/en/a.md:1: (1) is no equation of this page"]),
        (power_complaints, "`$z$`", "e<sup>−2</sup> = 0.14 e<sup>-1</sup>", []),
        (power_complaints, "`$z$`", "e<sup>−2</sup> = 0.15", ["docs/en/a.md:5: e<sup>−2</sup> = 0.15 is"]),
        (power_complaints, "`$z$`", "e<sup>1 − 2</sup> = e<sup>−2</sup> = 0.37", ["docs/en/a.md:5: "]),
        (record_complaints, "call  a", "call b", ["{{ results:call a }} is missing", "{{ results:call b }}"]),
        (record_complaints, "agreement:a", "agreement:b", ["{{ agreement:a }} is", "{{ agreement:b }} is"]),
        (number_complaints, "7 µs", "7 ms", ["zh/a.md:5: 7 µs is missing", "en/a.md:5: 7 ms is"]),
        (number_complaints, "4.1", "4.2", ["4.1 TB/s is missing", "4.2 TB/s is missing"]),
        (number_complaints, "0.5×", "half", ["docs/zh/a.md:5: 0.5 × is missing"]),
    ],
)
def test_what_one_language_lacks_is_named(guard: Guard, old: str, new: str, complaints: list[str]) -> None:
    assert old in EN
    found = list(guard(both(ZH, EN.replace(old, new))))
    assert len(found) == len(complaints)
    assert all(complaint in text for complaint, text in zip(complaints, found, strict=True))


def test_display_formulas_in_another_order_are_named() -> None:
    swapped = EN.replace("$$\nx\n$$", "").replace("$$s", "$$x$$\n\n$$s")
    (found,) = formula_complaints(both(ZH, swapped))
    assert found.endswith("has its display formulas in another order")


def test_a_missing_page_is_named() -> None:
    (found,) = page_complaints({"docs/zh/a/b.md": ""})
    assert found == "docs/zh/a/b.md:1: docs/en/a/b.md is missing; translate the page"
