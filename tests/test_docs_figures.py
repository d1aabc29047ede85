"""The figures say what the package computes, in both languages."""

import itertools
import re
from pathlib import Path

import pytest
import torch

from camp_softmax import reference

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "figures"
ROW = torch.tensor([3.0, 1, 4, 1, 5, 9, 2, 6])


def texts(svg: str) -> list[str]:
    """What the <text> elements of a figure say, without markup."""
    return [re.sub(r"<[^>]+>", "", text) for text in re.findall(r"<text.*?</text>", svg, re.DOTALL)]


@pytest.mark.parametrize("language", ["zh", "en"])
def test_merge_shows_the_states_of_the_row(language):
    svg = (FIGURES / f"merge.{language}.svg").read_text(encoding="utf-8")
    states = list(reference.states(ROW, 3))
    shown = texts(svg)
    assert [t for t in shown if re.match(r"m = \d", t)] == [f"m = {m:.0f}" for m, _ in states]
    assert [t for t in shown if re.match(r"s = \d\.", t)] == [f"s = {s:.3f}" for _, s in states]
    drops = [(old.m - new.m).item() for old, new in itertools.pairwise(states)]
    assert [t for t in shown if "s ×" in t] == [f"s × e−{-d:.0f}" if d else "s × 1" for d in drops]
    description = re.search(r"<desc.*?>(.*)</desc>", svg)[1]
    assert re.findall(r"\((\d+), ([\d.]+)\)", description) == [(f"{m:.0f}", f"{s:.3f}") for m, s in states]


@pytest.mark.parametrize("language", ["zh", "en"])
def test_reduce_shows_the_maxima_of_rows_and_of_columns(language):
    shown = [
        text for text in texts((FIGURES / f"reduce.{language}.svg").read_text("utf-8")) if text.isdigit()
    ]
    x = ROW.view(2, 4)
    left, right = shown[:10], shown[10:]
    assert sorted(left[:8] + right[:8]) == sorted(2 * [f"{value:.0f}" for value in ROW])
    assert left[8:] == [f"{value:.0f}" for value in x.amax(dim=1)]
    assert right[8:] == [f"{value:.0f}" for value in x.amax(dim=0)]


@pytest.mark.parametrize("language", ["zh", "en"])
def test_reread_shows_the_states_and_the_last_tile(language):
    svg = (FIGURES / f"reread.{language}.svg").read_text("utf-8")
    states = [(f"{m:.0f}", f"{s:.3f}") for m, s in reference.states(ROW, 3)]
    assert [f"m = {m}, s = {s}" for m, s in states] == [t for t in texts(svg) if t.startswith("m = ")]
    assert re.findall(r"\((\d+), ([\d.]+)\)", re.search(r"<desc.*?>(.*)</desc>", svg)[1]) == states
    read = re.findall(r'<rect [^>]*stroke="var\(--read\)"[^>]*/>\n<text[^>]*>(\d)</text>', svg)
    row = [f"{value:.0f}" for value in ROW]
    assert read == [*row, *row[6:], *row]  # the first scan, what it leaves, the second
    assert len(re.findall(r'<rect [^>]*stroke="var\(--write\)"', svg)) == len(row)


@pytest.mark.parametrize("language", ["zh", "en"])
def test_route_counts_what_the_model_counts_and_promises_nothing(language):
    """A square for each read or write of the row; dashed until there is a kernel; chapters that exist."""
    svg = (FIGURES / f"route.{language}.svg").read_text(encoding="utf-8")
    rungs = re.findall(r'<g data-rung="(\w+)">(.*?)</g>', svg, re.DOTALL)
    assert [rung for rung, _ in rungs] == [rung for rung in reference.SCANS if rung != "three_scan"]
    for number, (rung, drawn) in enumerate(rungs):
        reads, writes = reference.SCANS[rung]
        squares = re.findall(r'<rect .*stroke="var\(--(\w+)\)"', drawn)
        assert (squares.count("read"), squares.count("write")) == (reads, writes), rung
        assert texts(drawn)[0] == str(number)
        assert texts(drawn)[-1] == str(reads + writes)
        written = rung == "naive" or any((ROOT / "camp_softmax").glob(f"*/{rung}.*"))
        assert ("stroke-dasharray" in drawn) is not written, rung
    pages = (ROOT / "docs" / language / "tutorial").glob("*.md")
    chapters = {re.match(r"# (\d+)", page.read_text(encoding="utf-8"))[1] for page in pages}
    between = texts(re.sub(r"<g .*?</g>", "", svg, flags=re.DOTALL))
    named = {found[1] for text in between if (found := re.search(r"(\d+)( 章)?[:：]", text))}
    assert named
    assert named <= chapters


@pytest.mark.parametrize("name", sorted({path.name.split(".")[0] for path in FIGURES.glob("*.svg")}))
def test_figures_agree_between_languages(name):
    """Same drawing, same numbers, a title and a description in each; no colour of their own."""
    zh, en = ((FIGURES / f"{name}.{language}.svg").read_text(encoding="utf-8") for language in ("zh", "en"))

    def drawing(svg: str) -> list[str]:
        return re.findall(r"<(?:rect|path|pattern|circle)[^>]*>", svg)

    def numbers(svg: str) -> list[str]:
        return re.findall(r"[\d.]+", " ".join(texts(svg)))

    assert drawing(zh) == drawing(en)
    assert numbers(zh) == numbers(en)
    for svg in (zh, en):
        assert re.search(r"<title id=.+?>.+</title>\n<desc id=.+?>.+</desc>", svg)
        assert not re.search(r"#[0-9a-fA-F]{3,8}\b(?!-)", svg.replace("url(#", "url("))
        assert "\n\n" not in svg, "a blank line would end the HTML block on the page"
