"""Coloured code is kept from build to build: Pygments would take a quarter of the time of each."""

import os
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pymdownx.highlight import Highlight, HighlightExtension


class _Kept(Highlight):
    """Colours a block, if none has coloured the same in the same way."""

    folder: Path

    # The count numbers lines, which have no numbers here.
    def highlight(self, *args: Any, code_block_count: int, **options: Any) -> Any:
        settings = {name: value for name, value in vars(self).items() if name != "md"}
        key = sha256(repr((_versions(), settings, args, options)).encode()).hexdigest()
        path = self.folder / key
        if path.exists():
            return path.read_bytes().decode()
        coloured = super().highlight(*args, **options)
        draft = path.with_suffix(f".{os.getpid()}")  # the other language may be reading
        draft.write_bytes(coloured.encode())
        draft.replace(path)
        return coloured


@cache
def _versions() -> tuple[str, ...]:
    return tuple(map(version, ("pygments", "pymdown-extensions")))


class Colours(HighlightExtension):
    """The Markdown extension; pymdownx.superfences asks it who colours its blocks."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(**settings)
        self.highlighter = type("Kept", (_Kept,), {"folder": folder})

    def get_pymdownx_highlighter(self) -> type[Highlight]:
        return self.highlighter
