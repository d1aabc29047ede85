"""What a page says outside its code: words, formulas, equations, headings, numbers with units.

Standard library only, as blocks.py. Every helper keeps the numbers of the lines, so that whoever
complains about a page can say where.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from blocks import outside, pages
from notebooks import markdown, notebooks

Pages = dict[str, str]  # the text of each page by its path from the root, "docs/zh/index.md"

COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
SPAN = re.compile(r"(?<![`\\])(`+)(?!`)(?:.|\n(?!\n))+?(?<!`)\1(?!`)")
FORMULA = re.compile(
    r"(?<!\\)\$\$(?P<dollars>.+?)\$\$"
    r"|\\\[(?P<brackets>.+?)\\\]"
    r"|(?<![\\$])\$(?!\s)(?P<inline>(?:\\.|[^\\$])+?)(?<!\s)\$"
    r"|\\\((?P<parentheses>.+?)\\\)"
    r"|(?P<environment>\\begin\{(?P<name>[a-z]+\*?)\}.+?\\end\{(?P=name)\})",
    re.DOTALL,
)
EQUATION = re.compile(r'<div class="equation" id="(?P<id>[^"]*)" markdown>.*?</div>', re.DOTALL)
TAG = re.compile(r"\\tag\{(?P<number>[^}]*)\}")
HEADING = re.compile(r"(?P<level>#{1,6})\s+(?P<title>.*?)(?:\{:?[^}]*#(?P<id>[\w-]+)[^}]*\})?\s*")
URL = re.compile(r"(?<=\])\([^)]*\)|^\s*\[[^\]]+\]:.*$|https?://[^\s>）)]+", re.MULTILINE)
MARKUP = re.compile(r"<[^>]+>|\{:?\s*[.#][^}\n]*\}")

UNITS = {
    "TB/s": "TB/s",
    "GB/s": "GB/s",
    "MB/s": "MB/s",
    "[KMGT]i?B": None,  # None: the unit is its own name
    "GHz": "GHz",
    "[µμu]s|微秒|microseconds?": "µs",
    "ms|毫秒|milliseconds?": "ms",
    "ns|纳秒|nanoseconds?": "ns",
    "s|秒|seconds?": "s",
    "min|分钟|minutes?": "min",
    "bytes?|字节": "bytes",
    "px|像素|pixels?": "px",
    "[%％]": "%",
    r"(?:×|x)(?!\s*\d)|倍|次|times": "×",  # not the × of 16 × 256
}
NUMBER = re.compile(
    r"(?<![\w.])(?<!第)(?<!第 )(?P<value>(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)*(?:e[-+]?\d+)?)"
    rf"(?:[\s-]?(?P<unit>{'|'.join(UNITS)})(?![A-Za-z]))?"
)


@dataclass(frozen=True)
class Formula:
    """A formula with its TeX, of which the white space says nothing."""

    line: int
    tex: str
    display: bool


@dataclass(frozen=True)
class Equation:
    """A numbered formula that can be linked to."""

    line: int
    id: str
    formulas: tuple[Formula, ...]  # exactly one, if the page is right


@dataclass(frozen=True)
class Heading:
    line: int
    level: int
    id: str | None  # None if it is left to the title, which differs between languages


def read(root: Path) -> Pages:
    """All pages of a tree, of a notebook the Markdown that the build makes of it."""
    texts = {path: path.read_text("utf-8") for path in pages(root)}
    texts |= {path: markdown(path.read_text("utf-8")) for path in notebooks(root)}
    return {path.relative_to(root).as_posix(): text for path, text in texts.items()}


def language(pages: Pages, name: str) -> Pages:
    """The pages of one language, by their path within it."""
    folder = f"docs/{name}/"
    return {path.removeprefix(folder): text for path, text in pages.items() if path.startswith(folder)}


def line_of(text: str, position: int) -> int:
    """The number of the line, counted from 1."""
    return text.count("\n", 0, position) + 1


def without(pattern: re.Pattern[str], text: str, filler: str = "") -> str:
    """The text with the matches gone and every line where it was."""
    return pattern.sub(lambda match: filler + "\n" * match[0].count("\n"), text)


def unfenced(markdown: str) -> str:
    """The page without fences and comments."""
    lines = dict(outside(markdown))
    text = "\n".join(lines.get(number, "") for number in range(1, markdown.count("\n") + 2))
    return without(COMMENT, text)


def words(markdown: str, code: str | None = None) -> str:
    """The prose alone: no fences, formulas, URLs and markup, and `code` in place of code spans."""
    text = unfenced(markdown)
    text = text if code is None else without(SPAN, text, code)
    text = without(FORMULA, text, "$")
    return without(MARKUP, without(URL, text))


def formulas(markdown: str) -> list[Formula]:
    """Every formula of the page, in order."""
    return _formulas(without(SPAN, unfenced(markdown)))


def _formulas(text: str, first: int = 1) -> list[Formula]:
    return [
        Formula(
            first + line_of(text, match.start()) - 1,
            " ".join(match[match.lastgroup or 0].split()),
            display=match["inline"] is None and match["parentheses"] is None,
        )
        for match in FORMULA.finditer(text)
    ]


def equations(markdown: str) -> list[Equation]:
    """Every `<div class="equation" id="eq-…" markdown>`, in order."""
    text = without(SPAN, unfenced(markdown))
    found = []
    for match in EQUATION.finditer(text):
        line = line_of(text, match.start())
        found.append(Equation(line, match["id"], tuple(_formulas(match[0], line))))
    return found


def headings(markdown: str) -> list[Heading]:
    """Every `#` heading of the page, in order."""
    lines = enumerate(unfenced(markdown).split("\n"), 1)
    matches = ((number, HEADING.fullmatch(line)) for number, line in lines)
    return [Heading(number, len(match["level"]), match["id"]) for number, match in matches if match]


def numbers(markdown: str) -> dict[str, int]:
    """The decimals, and the numbers with units, that the prose states, and where each is first.

    Units have one name in all languages: 微秒, us and microseconds are all µs.
    """
    text = words(markdown)
    found: dict[str, int] = {}
    for match in NUMBER.finditer(text):
        value, unit = match["value"].replace(",", ""), match["unit"]
        if unit or "." in value or "e" in value:
            found.setdefault(f"{value} {_name(unit)}".strip(), line_of(text, match.start()))
    return found


def _name(unit: str | None) -> str:
    names = (name or unit for pattern, name in UNITS.items() if unit and re.match(pattern, unit))
    return next(names, "")
