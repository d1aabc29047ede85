"""Search cuts Chinese text with a part of jieba's dictionary as it would with the whole."""

import re
from pathlib import Path

import pytest

pytest.importorskip("mkdocs")
import jieba

from words import FILE, text

ROOT = Path(__file__).parents[1]


def cuts(dictionary: str | None) -> list[str]:
    tokenizer = jieba.Tokenizer(dictionary)
    with (ROOT / "docs/hooks/terms.txt").open("rb") as terms:
        tokenizer.load_userdict(terms)
    runs = re.findall(r"[\u4e00-\u9fff]+", text(ROOT))
    return [word for run in runs for word in tokenizer.cut(run)]


def test_part_of_the_dictionary_is_enough() -> None:
    whole, part = cuts(None), cuts(str(FILE))
    other = [(a, b) for a, b in zip(whole, part, strict=False) if a != b]
    assert whole == part, f"{other[:3]}: run `python docs/hooks/words.py`, which writes {FILE.name} anew"
