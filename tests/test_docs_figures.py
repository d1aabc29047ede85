"""The figures say what the package computes, in both languages."""

import itertools
import re
from pathlib import Path

import pytest
import torch

from camp_softmax import reference

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
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


@pytest.mark.parametrize("name", sorted({path.name.split(".")[0] for path in FIGURES.glob("*.svg")}))
def test_figures_agree_between_languages(name):
    """Same drawing, same numbers, a title and a description in each; no colour of their own."""
    zh, en = ((FIGURES / f"{name}.{language}.svg").read_text(encoding="utf-8") for language in ("zh", "en"))

    def drawing(svg: str) -> list[str]:
        return re.findall(r"<(?:rect|path|pattern)[^>]*>", svg)

    def numbers(svg: str) -> list[str]:
        return re.findall(r"[\d.]+", " ".join(texts(svg)))

    assert drawing(zh) == drawing(en)
    assert numbers(zh) == numbers(en)
    for svg in (zh, en):
        assert re.search(r"<title id=.+?>.+</title>\n<desc id=.+?>.+</desc>", svg)
        assert not re.search(r"#[0-9a-fA-F]{3,8}\b(?!-)", svg.replace("url(#", "url("))
        assert "\n\n" not in svg, "a blank line would end the HTML block on the page"
