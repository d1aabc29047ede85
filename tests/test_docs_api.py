"""The API page has every public name: what is exported, and what a documented module defines."""

import ast
import re
from pathlib import Path

import pytest

import camp_softmax

ROOT = Path(__file__).parents[1]
MODULES = {"reference": "reference.py", "tilelang": "tilelang/__init__.py", "cuda": "cuda/__init__.py"}
ENTRY = re.compile(r"^### `([\w.]+)` \{#([\w-]+)\}\n\n.+\n\n::: camp_softmax\.([\w.]+)$", re.MULTILINE)


def public(source: str) -> list[str]:
    """The functions and classes that a module defines for others, in order."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    names = [node.name for node in ast.parse(source).body if isinstance(node, kinds)]
    return [name for name in names if not name.startswith("_")]


@pytest.mark.parametrize("language", ["zh", "en"])
def test_every_public_name_has_an_entry(language: str) -> None:
    page = (ROOT / "docs" / language / "api.md").read_text("utf-8")
    entries = ENTRY.findall(page)
    assert len(entries) == page.count("\n::: "), "an entry is a heading, a paragraph and a mark"
    assert all(title == mark for title, _, mark in entries)
    assert all(id == re.sub("[._]", "-", title.lower()) for title, id, _ in entries)
    wanted = list(camp_softmax.__all__)
    for module, file in MODULES.items():
        names = public((ROOT / "camp_softmax" / file).read_text("utf-8"))
        wanted += [f"{module}.{name}" for name in names]
    assert sorted(title for title, _, _ in entries) == sorted(wanted)


def test_what_is_private_needs_no_entry() -> None:
    source = "def a(): pass\ndef _b(): pass\nclass C:\n    def d(self): pass\nE = 1\n"
    assert public(source) == ["a", "C"]
