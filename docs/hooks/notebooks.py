"""Notebooks: the Markdown page that one is, and the one form in which it is kept.

The build renders that page like any other, and the guards of the pages read it. Standard library
only, as blocks.py.
"""

import json
import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
HEADING = re.compile(r"\A##+ .*")
SVG, PLAIN = "image/svg+xml", "text/plain"


def notebooks(root: Path) -> list[Path]:
    """Every notebook of the site, without the copies that Jupyter keeps of a notebook being edited."""
    found = (root / "docs").rglob("*.ipynb")
    return sorted(path for path in found if ".ipynb_checkpoints" not in path.parts)


def code_cells(text: str) -> list[dict]:
    """The code cells of a notebook."""
    return [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]


def source(cell: dict) -> str:
    return "".join(cell["source"])  # a file has a list of lines, nbformat a string


def kept(outputs: Iterable[dict]) -> list[dict]:
    """Outputs as they are kept: of text what was printed, of an object its picture or else its text.

    Raises:
        ValueError: an error, a warning, or a kind of output that the pages do not show.
    """
    return [_kept(output) for output in outputs]


def _kept(output: dict) -> dict:
    match output:
        case {"output_type": "stream", "name": "stdout", "text": text}:
            return {"output_type": "stream", "name": "stdout", "text": _lines(text)}
        case {"output_type": "display_data" | "execute_result" as kind, "data": data}:
            mime = next((mime for mime in (SVG, PLAIN) if mime in data), None)
            if mime and not data.keys() - {SVG, PLAIN}:
                count = {"execution_count": None} if kind == "execute_result" else {}
                return {"output_type": kind, "data": {mime: _lines(data[mime])}, "metadata": {}} | count
        case {"output_type": "stream", "name": name, "text": text}:
            raise ValueError(f"a page shows no {name}: {''.join(text).strip()}")
    told = ", ".join(sorted(output.get("data", ()))) or output["output_type"]
    raise ValueError(f"a page shows printed text and SVG, not {told}")


def _lines(text: str | list[str]) -> list[str]:
    return "".join(text).splitlines(keepends=True)


def shown(output: dict) -> tuple[str, str]:
    """What a kept output shows, and its kind."""
    if "text" in output:
        return PLAIN, "".join(output["text"])
    ((mime, text),) = output["data"].items()
    return mime, "".join(text)


def dump(text: str, outputs: Sequence[list[dict]] | None = None) -> str:
    """The notebook as it is kept, with these outputs of its code cells or else its own.

    No counts, times or versions of one run; as Jupyter would write the rest, so that diffs are small.
    """
    notebook = json.loads(text)
    fresh = iter(outputs if outputs is not None else [kept(cell["outputs"]) for cell in code_cells(text)])
    cells = [
        {
            "cell_type": cell["cell_type"],
            "id": cell["id"],
            "metadata": {name: value for name, value in cell["metadata"].items() if name == "alt"},
            "source": _lines(cell["source"]),
        }
        | ({"execution_count": None, "outputs": next(fresh)} if cell["cell_type"] == "code" else {})
        for cell in notebook["cells"]
    ]
    whole = {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, sort_keys=True, indent=1, ensure_ascii=False) + "\n"


def markdown(text: str) -> str:
    """The notebook as a page. The id of a cell that begins with a heading is the heading's.

    Raises:
        ValueError: an output that a page does not show, or a picture without words for it.
    """
    return "\n\n".join(_markdown(cell) for cell in json.loads(text)["cells"]) + "\n"


def _markdown(cell: dict) -> str:
    if cell["cell_type"] == "markdown":  # attributes in the text would stand there for readers in Jupyter
        return HEADING.sub(lambda heading: f"{heading[0]} {{#{cell['id']}}}", source(cell))
    try:
        outputs = [_output(*shown(output), cell["metadata"]) for output in kept(cell["outputs"])]
    except ValueError as error:
        raise ValueError(f"cell {cell['id']}: {error}") from error
    card = "\n\n".join([_fence("py", source(cell)), *outputs])
    return f'<div class="card" markdown>\n\n{card}\n\n</div>'


def _output(mime: str, text: str, metadata: dict[str, Any]) -> str:
    if mime == PLAIN:
        return _fence("text", text)
    if not metadata.get("alt"):
        raise ValueError('a picture needs words for those who do not see it: "alt" in the cell\'s metadata')
    lines = "\n".join(line for line in text.splitlines() if line.strip())  # a blank one would end the HTML
    return f'<figure role="img" aria-label="{escape(metadata["alt"])}">\n{lines}\n</figure>'


def _fence(info: str, text: str) -> str:
    marker = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return "\n".join([marker + info, text.removesuffix("\n"), marker])
