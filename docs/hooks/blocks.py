"""The fences of a page, and the ledger of their runs on a GPU.

Standard library only: the site build and pytest both import this module, and the machine with
the GPU has no MkDocs.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

RUN = ("python", "bash", "sh")  # what pytest-codeblocks runs, if nothing else stands on the line

# A fence may stand in a list, a tab (indented) or a quotation; its marker alone closes it.
OPENING = re.compile(r"(?P<indent>[ \t>]*(?:(?:[-*+]|\d+[.)])[ \t]+)?)(?P<marker>`{3,}|~{3,})(?P<info>.*)")
COMMENT = re.compile(r"\s*<!--[-\s]*(?P<text>pytest.*?)[-\s]*-->\s*")
EXPECTED = "pytest-codeblocks:expected-output"


@dataclass(frozen=True)
class Fence:
    """A fenced block of a page, with the comments that bind it to pytest-codeblocks."""

    line: int  # of the opening marker, counted from 1
    end: int  # of the closing marker
    indent: str  # what stands before the marker, literally
    marker: str
    info: str
    body: str  # without the indent, ends with a newline unless empty
    marks: tuple[str, ...] = ()  # "pytest.mark.gpu", from comments right above
    expected: "Fence | None" = None  # the fence that holds its expected output
    runs: bool = False  # pytest-codeblocks will execute it


def pages(root: Path) -> list[Path]:
    """Every page of the site, and the READMEs."""
    return sorted([*root.glob("README*.md"), *(root / "docs").rglob("*.md")])


def outside(markdown: str) -> list[tuple[int, str]]:
    """The lines that stand in no fence, with their numbers counted from 1."""
    fences = iter(parse(markdown))
    fence = next(fences, None)
    lines = []
    for number, line in enumerate(markdown.split("\n"), 1):
        if fence is None or number < fence.line:
            lines.append((number, line))
        elif number == fence.end:
            fence = next(fences, None)
    return lines


def parse(markdown: str) -> list[Fence]:
    """Every fence that Markdown may render, whether or not pytest-codeblocks would run it.

    Comments bind only when nothing but blank lines stands between them and their fence. A fence
    that is never closed is a ValueError: everything below it would be swallowed.
    """
    lines = markdown.split("\n")
    fences: list[Fence] = []
    notes: list[str] = []  # the comments since the last line that was neither comment nor blank
    adjacent = False  # no such line since the last fence
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        opening = OPENING.fullmatch(line)
        if opening is None or (opening["marker"][0] == "`" and "`" in opening["info"]):
            if comment := COMMENT.fullmatch(line):
                notes.append(comment["text"])
            elif line.strip():
                notes, adjacent = [], False
            continue
        indent, marker, info = opening["indent"], opening["marker"], opening["info"]
        start, body = number, []
        while number < len(lines) and lines[number].strip(" \t>") != marker:
            body.append(_dedent(lines[number], indent))
            number += 1
        if number == len(lines):
            raise ValueError(f"line {start}: this fence is never closed")
        number += 1
        binds = adjacent and notes == [EXPECTED] and fences[-1].runs
        text = "".join(f"{text}\n" for text in body)
        marks = tuple(note for note in notes if note.startswith("pytest.mark."))
        # pytest-codeblocks wants backticks first, then at once the language, then nothing
        runs = not binds and marker[0] == "`" and not indent.strip() and info.rstrip() in RUN
        fence = Fence(start, number, indent, marker, info.strip(), text, marks, runs=runs)
        if binds:
            fences[-1] = replace(fences[-1], expected=fence)
        fences.append(fence)
        notes, adjacent = [], True
    return fences


def _dedent(line: str, indent: str) -> str:
    """`line` without the indent of its fence, or as much of it as is there."""
    blank = " \t>" if ">" in indent else " \t"
    depth = len(line) - len(line.lstrip(blank))
    return line[min(depth, len(indent)) :]


@dataclass(frozen=True)
class Verdict:
    """What the ledger knows of a block."""

    state: str  # "fresh", "stale" (a file changed since) or "never"
    record: dict | None = None
    changed: tuple[str, ...] = ()  # the files that changed or are gone, "output" if the page's differs


@dataclass
class Ledger:
    """docs/verified.json: the last run of each block on a GPU, keyed on the block's text."""

    root: Path
    blocks: dict[str, dict]

    @classmethod
    def load(cls, path: Path, root: Path) -> "Ledger":
        """The ledger at `path`, empty if there is none; file names in it count from `root`."""
        return cls(root, json.loads(path.read_text("utf-8"))["blocks"] if path.exists() else {})

    def save(self, path: Path) -> None:
        """Write it so that a new run makes a small diff."""
        text = json.dumps({"blocks": self.blocks}, sort_keys=True, indent=1, ensure_ascii=False)
        path.write_text(text + "\n", "utf-8")

    def verdict(self, body: str, expected: Fence | None = None) -> Verdict:
        """Whether the block with this text ran as it stands now, and printed what the page says."""
        record = self.blocks.get(body)
        if record is None:
            return Verdict("never")
        changed = changed_since(sorted(record["files"].items()), self.root)
        if expected and lines_of(expected.body) != lines_of(record["output"]):
            changed += ("output",)
        return Verdict("stale" if changed else "fresh", record, changed)


def lines_of(text: str) -> list[str]:
    """The lines of an output; a fence cannot show whether the last one ended."""
    return text.removesuffix("\n").split("\n")


def changed_since(files: Iterable[tuple[str, str | None]], root: Path) -> tuple[str, ...]:
    """Of files with the digests that they had, those that have others now, or are gone; each once."""
    return tuple(dict.fromkeys(name for name, digest in files if sha256(root / name) != digest))


def sha256(path: Path) -> str | None:
    """The digest of a file, None if it is gone."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
