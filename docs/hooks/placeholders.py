"""Placeholders on the pages, `{{ results:ratio auto float32 4096 }}` and the like: where they stand, what
they ask for, and how they are filled. Standard library only: the guards of the pages read them, too.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from blocks import outside
from prose import SPAN

PLACEHOLDER = re.compile(r"\{\{\s*(?P<record>results|agreement)\b(?P<rest>[^{}]*)\}\}")
CALL = re.compile(r"(?:\.(?P<beside>[a-z-]+))?:(?P<name>[a-z-]+)(?P<arguments>(?:\s+[\w.-]+)*)\s*")


class MissingError(ValueError):
    """A page asks for what the record does not have; the message says what there is."""


class Call(NamedTuple):
    """What a placeholder asks for."""

    beside: str | None  # a record beside the one that is meant otherwise
    name: str
    arguments: list[str]
    alone: bool  # on its line


def put(text: str, record: str, fill: Callable[[Call], str], where: str) -> str:
    """The page with the placeholders for a record filled, line for line.

    Args:
        text: the page's Markdown; what stands in fences and code spans stays.
        record: the first word of those that are meant.
        fill: what to put in; a MissingError says why there is nothing.
        where: the page's path, for complaints.

    Raises:
        MissingError: one line for each placeholder that cannot be filled.
    """
    lines, complaints = text.split("\n"), []
    for at, line in outside(text):
        for match in reversed(_outside_spans(line)):
            if match["record"] != record:
                continue
            try:
                if not (call := CALL.fullmatch(match["rest"])):
                    raise MissingError(f"expected {{{{ {record}:name argument … }}}}")
                alone = line.strip() == match[0]
                filled = fill(Call(call["beside"], call["name"], call["arguments"].split(), alone))
            except MissingError as error:
                complaints.append(f"{where}:{at}: {match[0]}: {error}")
                continue
            lines[at - 1] = lines[at - 1][: match.start()] + filled + lines[at - 1][match.end() :]
    if complaints:
        raise MissingError("\n".join(complaints))
    return "\n".join(lines)


def calls(text: str, record: str = "results") -> list[str]:
    """Every placeholder of a page for a record, in order, with white space that says nothing taken out."""
    found = (match for _, line in outside(text) for match in _outside_spans(line))
    return [_plain(match) for match in found if match["record"] == record]


def _plain(match: re.Match[str]) -> str:
    return " ".join(match["rest"].split())


def _outside_spans(line: str) -> list[re.Match[str]]:
    spans = [span.span() for span in SPAN.finditer(line)]
    return [
        match
        for match in PLACEHOLDER.finditer(line)
        if not any(start < match.start() < end for start, end in spans)
    ]
