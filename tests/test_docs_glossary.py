"""The glossary: one list of terms in two languages, each page naming them as the other does."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
LANGUAGES = ("zh", "en")
ENTRY = re.compile(
    r'### (?P<name>.+?)(?: <i lang="(?P<language>zh|en)">(?P<other>.+?)</i>)? \{#(?P<id>[\w-]+)\}\n\n'
    r"(?P<text>.+)"
)
PLACE = re.compile(r"\]\(([\w/-]+\.md#[\w-]+)\)|`(camp_softmax/[\w/]+\.\w+)`")


class Entry(NamedTuple):
    name: str
    other: str  # the name in the other language, or the same where there is but one
    language: str | None  # of that name
    places: list[tuple[str, str]]  # where the term is taught: a page, or a file that uses it


def entries(page: str) -> dict[str, Entry]:
    """The terms of a glossary by their ids."""
    found = {}
    for match in ENTRY.finditer(page):
        name = match["name"]
        other = match["other"] or name
        found[match["id"]] = Entry(name, other, match["language"], PLACE.findall(match["text"]))
    return found


def complaints(zh: str, en: str, terms: list[str]) -> Iterator[str]:
    ours, theirs = entries(zh), entries(en)
    for page, found in (zh, ours), (en, theirs):
        headings = re.findall("^### .*", page, re.MULTILINE)
        if len(headings) != len(found):
            yield f"{len(headings)} headings, {len(found)} of them with a term, an id and a text below"
    for id in ours.keys() ^ theirs.keys():
        yield f"#{id} is missing in one language"
    for id in ours.keys() & theirs.keys():
        mine, other = ours[id], theirs[id]
        if (mine.name, mine.other) != (other.other, other.name):
            yield f"#{id}: {mine.name} is {mine.other}, but {other.name} is {other.other}"
        if (mine.language, other.language) not in (("en", "zh"), (None, None)):
            yield f"#{id}: a name has another language than it says"
        if not mine.places or mine.places != other.places:
            yield f"#{id}: leads to {mine.places} and to {other.places}"
    for term in set(terms) - {entry.name for entry in ours.values()}:
        yield f"{term} of docs/hooks/terms.txt is no term"


def real() -> tuple[str, str, list[str]]:
    zh, en = (ROOT.joinpath("docs", language, "glossary.md").read_text("utf-8") for language in LANGUAGES)
    terms = ROOT.joinpath("docs/hooks/terms.txt").read_text("utf-8").splitlines()
    return zh, en, [line.split()[0] for line in terms]


def test_the_glossaries_name_the_same_terms() -> None:
    assert entries(real()[0])
    assert list(complaints(*real())) == []


ZH = """\
### 分块 <i lang="en">tile</i> {#tile}

一片。[第 1 章](tutorial/a.md#b)

### TMA {#tma}

`camp_softmax/a.py`
"""
EN = """\
### tile <i lang="zh">分块</i> {#tile}

A piece. [Chapter 1](tutorial/a.md#b)

### TMA {#tma}

`camp_softmax/a.py`
"""


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("", "", None),
        ("### tile ", "### block ", "#tile: 分块 is tile, but block is 分块"),
        (">分块<", ">片<", "#tile: 分块 is tile, but tile is 片"),
        ('lang="zh"', 'lang="en"', "#tile: a name has another language"),
        ("#b)", "#c)", "#tile: leads to"),
        ("`camp_softmax/a.py`", "text", "#tma: leads to"),
        ("### TMA {#tma}", "### TMA", "2 headings, 1 of them"),
        ("{#tma}", "{#TMA}", "is missing in one language"),
    ],
)
def test_a_difference_is_named(old: str, new: str, complaint: str | None) -> None:
    assert old in EN
    found = list(complaints(ZH, EN.replace(old, new), ["分块"]))
    assert complaint in found[0] if complaint else found == []


def test_a_word_of_the_search_index_that_is_no_term_is_named() -> None:
    assert list(complaints(ZH, EN, ["归约"])) == ["归约 of docs/hooks/terms.txt is no term"]
