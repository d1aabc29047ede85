"""Notebooks are kept in one form, have the same cells in both languages, and become pages of cards."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from blocks import parse
from notebooks import dump, kept, markdown, notebooks, source
from prose import Pages
from test_docs_fences import SCISSORS, TALLEST, WIDEST
from test_docs_languages import pairs

ROOT = Path(__file__).parents[1]
NOTEBOOKS = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in notebooks(ROOT)}


def form_complaints(pages: Pages) -> Iterator[str]:
    """Notebooks with something of one run or machine in them, or cells that are no page's."""
    for page, text in pages.items():
        if text != dump(text):
            yield f"{page}: not as it is kept; run pytest --codeblocks docs --update-outputs"
        for cell in json.loads(text)["cells"]:
            where, lines = f"{page}: cell {cell['id']}", source(cell).splitlines()
            if cell["cell_type"] not in ("markdown", "code"):
                yield f"{where} is {cell['cell_type']}; a page has text and code"
            if cell["cell_type"] == "markdown" and parse(source(cell)):
                yield f"{where} has a fence; code that runs is a cell"
            if SCISSORS.search(source(cell)):
                yield f"{where} includes something, which Jupyter would not"
            if cell["cell_type"] == "code" and (
                len(lines) > TALLEST or max(map(len, lines), default=0) > WIDEST
            ):
                yield f"{where} is more than {TALLEST} lines or {WIDEST} columns"


def cell_complaints(pages: Pages) -> Iterator[str]:
    """The first cell of a notebook in which the languages differ."""
    for path, *texts in pairs(pages):
        for zh, en in itertools.zip_longest(*map(shared, texts)):
            if zh != en:
                yield f"docs/zh/{path}: cell {(zh or en)[0]} is not that of docs/en/{path}"
                break


def shared(text: str) -> list[tuple]:
    """What the languages have in common of each cell: its id, and code and outputs, but not the prose."""
    cells = json.loads(text)["cells"]
    return [(cell["id"], cell["cell_type"] == "code" and source(cell), cell.get("outputs")) for cell in cells]


def test_notebooks_are_kept_in_one_form() -> None:
    assert NOTEBOOKS
    assert not (found := list(form_complaints(NOTEBOOKS))), "\n".join(found)


def test_the_languages_have_the_same_cells() -> None:
    assert not (found := list(cell_complaints(NOTEBOOKS))), "\n".join(found)


PRINTED = {"output_type": "stream", "name": "stdout", "text": "1\n```\n"}
DRAWN = {"output_type": "display_data", "data": {"image/svg+xml": "<svg>\n\n</svg>", "text/plain": "SVG"}}
VALUE = {"output_type": "execute_result", "data": {"text/plain": "2"}, "execution_count": 3}


def text(identity: str, words: str) -> dict:
    return {"cell_type": "markdown", "id": identity, "metadata": {}, "source": words}


def code(identity: str, words: str, *outputs: dict, **metadata: object) -> dict:
    cell = {"cell_type": "code", "id": identity, "metadata": metadata, "source": words}
    return cell | {"outputs": [*outputs], "execution_count": 7}


CELLS = [
    text("title", "# Title\n\nwords"),
    code("run", "print('1\\n```')\n2", PRINTED, VALUE, collapsed=True),
    text("part", "## Part\n\nwords"),
    code("draw", "x", DRAWN, alt='"a" < b'),
    code("silent", "y = 1"),
]
PAGE = """\
# Title

words

<div class="card" markdown>

```py
print('1\\n```')
2
```

````text
1
```
````

```text
2
```

</div>

## Part {#part}

words

<div class="card" markdown>

```py
x
```

<figure role="img" aria-label="&quot;a&quot; &lt; b">
<svg>
</svg>
</figure>

</div>

<div class="card" markdown>

```py
y = 1
```

</div>
"""


def notebook(*cells: dict) -> str:
    return json.dumps({"cells": cells, "metadata": {"kernelspec": {"name": "mine"}}, "nbformat": 4})


def test_a_notebook_becomes_a_page_with_cards() -> None:
    page = markdown(notebook(*CELLS))
    assert page == PAGE.replace("```py\nprint('1\\n```')\n2\n```", "````py\nprint('1\\n```')\n2\n````")
    assert markdown(dump(notebook(*CELLS))) == page


def test_what_is_kept_is_of_no_run_and_no_machine() -> None:
    whole = json.loads(dump(notebook(*CELLS)))
    assert whole["metadata"]["kernelspec"]["name"] == "python3"
    _, run, _, draw, silent = whole["cells"]
    assert (run["execution_count"], run["metadata"]) == (None, {})
    assert run["source"] == ["print('1\\n```')\n", "2"]
    assert [output.get("text") or output["data"] for output in run["outputs"]] == [
        ["1\n", "```\n"],
        {"text/plain": ["2"]},
    ]
    assert run["outputs"][1]["execution_count"] is None
    assert draw["metadata"] == {"alt": '"a" < b'}
    assert [[*output["data"]] for output in draw["outputs"]] == [["image/svg+xml"]]
    assert silent["outputs"] == []


@pytest.mark.parametrize(
    ("output", "complaint"),
    [
        ({"output_type": "error", "ename": "E", "evalue": "", "traceback": []}, "SVG, not error"),
        ({"output_type": "stream", "name": "stderr", "text": ["a\n"]}, "no stderr: a"),
        ({"output_type": "display_data", "data": {"text/html": "", "text/plain": ""}}, "not text/html"),
        ({"output_type": "display_data", "data": {"image/png": ""}}, "not image/png"),
    ],
)
def test_outputs_that_no_page_shows_are_refused(output: dict, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        kept([output])
    with pytest.raises(ValueError, match=f"cell bad: .*{complaint}"):
        markdown(notebook(code("bad", "x", output)))


def test_a_picture_without_words_is_refused() -> None:
    with pytest.raises(ValueError, match="cell draw: a picture needs words"):
        markdown(notebook(code("draw", "x", DRAWN)))


def both(zh: str, en: str) -> Pages:
    return {"docs/zh/labs/a.ipynb": zh, "docs/en/labs/a.ipynb": en}


RIGHT = dump(notebook(*CELLS))


def test_a_right_notebook_passes() -> None:
    other = json.loads(RIGHT)
    other["cells"][0]["source"] = ["# 标题"]
    other["cells"][3]["metadata"]["alt"] = "甲"
    pages = both(dump(json.dumps(other)), RIGHT)
    assert list(form_complaints(pages)) == []
    assert list(cell_complaints(pages)) == []


@pytest.mark.parametrize(
    ("cell", "complaint"),
    [
        (text("a", "```bash\nls\n```"), "cell a has a fence"),
        (text("a", '--8<-- "snippets/a.py"'), "cell a includes something"),
        (code("a", "x" * 81), "cell a is more than 44 lines or 80 columns"),
        (code("a", "x\n" * 45), "cell a is more than 44 lines or 80 columns"),
        ({**text("a", "x"), "cell_type": "raw"}, "cell a is raw"),
    ],
)
def test_a_cell_that_is_no_pages_is_named(cell: dict, complaint: str) -> None:
    (found,) = form_complaints({"docs/zh/labs/a.ipynb": dump(notebook(cell))})
    assert found.startswith(f"docs/zh/labs/a.ipynb: {complaint}")


@pytest.mark.parametrize(
    ("old", "new"),
    [("null", "3"), ("python3", "mine"), ('"metadata": {}', '"metadata": {"tags": []}'), (" ", "  ")],
)
def test_a_notebook_in_another_form_is_named(old: str, new: str) -> None:
    assert old in RIGHT
    (found,) = form_complaints({"docs/zh/labs/a.ipynb": RIGHT.replace(old, new, 1)})
    assert found.startswith("docs/zh/labs/a.ipynb: not as it is kept")


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [('"y = 1"', '"y = 2"', "silent"), ('"1\\n"', '"3\\n"', "run"), ('"part"', '"parts"', "part")],
)
def test_cells_in_which_the_languages_differ_are_named(old: str, new: str, name: str) -> None:
    assert old in RIGHT
    (found,) = cell_complaints(both(RIGHT, RIGHT.replace(old, new)))
    assert found == f"docs/zh/labs/a.ipynb: cell {name} is not that of docs/en/labs/a.ipynb"


def test_a_cell_that_one_language_lacks_is_named() -> None:
    (found,) = cell_complaints(both(RIGHT, dump(notebook(*CELLS[:-1]))))
    assert "silent is not that of" in found
