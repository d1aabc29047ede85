"""The parser of fences, and the ledger of their runs."""

import json
from hashlib import sha256
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_codeblocks.main import extract_from_buffer

from blocks import Fence, Ledger, outside, parse

PAGE = """\
# Title

<!--pytest.mark.gpu-->

```bash
python snippets/a.py
```

<!--pytest-codeblocks:expected-output-->

```text
[0.0, 1.0]
```

=== "Tab"

    ````py title="snippets/a.py"
    ```
      two in

    ````
"""


def test_a_fence_has_its_place_text_marks_and_output() -> None:
    run, output, shown = parse(PAGE)
    assert output == Fence(11, 13, "", "```", "text", "[0.0, 1.0]\n")
    assert run == Fence(
        5,
        7,
        "",
        "```",
        "bash",
        "python snippets/a.py\n",
        marks=("pytest.mark.gpu",),
        expected=output,
        runs=True,
    )
    title = 'py title="snippets/a.py"'
    assert shown == Fence(17, 21, "    ", "````", title, "```\n  two in\n\n")


def test_outside_are_the_other_lines() -> None:
    assert [line for line, text in outside(PAGE) if text] == [1, 3, 9, 15]


@pytest.mark.parametrize(
    ("indent", "opening", "runs"),
    [
        ("", "```python", True),
        ("", "````bash", True),
        ("  ", "```sh", True),
        ("", "``` python", False),
        ("", '```python title="a"', False),
        ("", "```{.python}", False),
        ("", "```Python", False),
        ("", "~~~python", False),
        ("> ", "```python", False),
        ("- ", "```python", False),
    ],
)
def test_every_style_is_seen_and_runs_are_told_apart(indent: str, opening: str, runs: bool) -> None:
    marker = opening[: len(opening) - len(opening.lstrip("`~"))]
    (fence,) = parse(f"{indent}{opening}\nx\n{marker}\n")
    assert (fence.indent, fence.body, fence.runs) == (indent, "x\n", runs)


@pytest.mark.parametrize("between", ["words", "```py\n```", "<!--pytest.mark.gpu-->"])
def test_an_output_binds_only_to_its_neighbour(between: str) -> None:
    comment = "<!--pytest-codeblocks:expected-output-->"
    page = f"```bash\nls\n```\n\n{between}\n\n{comment}\n\n```text\na\n```\n"
    assert not any(fence.expected for fence in parse(page))


def test_inline_backticks_open_nothing() -> None:
    assert parse("```not a fence``` in a sentence\n") == []


def test_an_unclosed_fence_is_an_error() -> None:
    with pytest.raises(ValueError, match="line 2: this fence is never closed"):
        parse("\n```bash\nls\n")


TEXT = st.lists(st.sampled_from(["a", " b", "", "    c", "``"]), max_size=3)
PIECES = st.tuples(
    st.sampled_from(["", "  ", "    "]),
    st.sampled_from(["```", "````", "~~~"]),
    st.sampled_from(["python", "bash", "py", "python title", "text", ""]),
    TEXT.map("\n".join),
    st.sampled_from(["", "words", "<!--pytest.mark.gpu-->", "# x"]),
)


@given(st.lists(PIECES, max_size=4))
def test_it_runs_what_pytest_codeblocks_runs(pieces: list[tuple[str, ...]]) -> None:
    page = "".join(
        f"{note}\n\n{indent}{marker}{info}\n"
        + "".join(f"{indent}{line}\n" if line else "\n" for line in body.split("\n"))
        + f"{indent}{marker}\n\n"
        for indent, marker, info, body, note in pieces
    )
    theirs = [
        (block.lineno, block.syntax, block.code.replace("\n", ""))
        for block in extract_from_buffer(StringIO(page))
        if block.syntax in ("python", "bash", "sh")
    ]
    ours = [(f.line, f.info, f.body.replace("\n", "")) for f in parse(page) if f.runs]
    assert ours == theirs


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "snippets").mkdir()
    (tmp_path / "snippets" / "a.py").write_text("print(1)\n")
    return tmp_path


def ledger(tree: Path) -> Ledger:
    digest = sha256(b"print(1)\n").hexdigest()
    return Ledger(tree, {"python snippets/a.py\n": {"files": {"snippets/a.py": digest}, "output": "1\n"}})


def test_a_block_that_never_ran(tree: Path) -> None:
    verdict = Ledger.load(tree / "none.json", tree).verdict("ls\n")
    assert (verdict.state, verdict.record, verdict.changed) == ("never", None, ())


def test_a_record_is_fresh_until_a_file_changes_or_goes(tree: Path) -> None:
    body, file = "python snippets/a.py\n", tree / "snippets" / "a.py"
    assert ledger(tree).verdict(body).state == "fresh"
    for change in (lambda: file.write_text("print(2)\n"), file.unlink):
        change()
        verdict = ledger(tree).verdict(body)
        assert (verdict.state, verdict.changed) == ("stale", ("snippets/a.py",))
        assert verdict.record is not None


@pytest.mark.parametrize(("output", "changed"), [("1\n", ()), ("1", ()), ("2\n", ("output",))])
def test_a_record_is_stale_if_the_page_says_another_output(
    tree: Path, output: str, changed: tuple[str, ...]
) -> None:
    expected = Fence(1, 3, "", "```", "text", output)
    verdict = ledger(tree).verdict("python snippets/a.py\n", expected)
    assert (verdict.state, verdict.changed) == ("stale" if changed else "fresh", changed)


def test_the_file_is_sorted_readable_and_loads_again(tree: Path) -> None:
    path = tree / "verified.json"
    Ledger(tree, {"b\n": {"output": "行"}, "a\n": {}}).save(path)
    text = path.read_text("utf-8")
    assert text.startswith('{\n "blocks": {\n  "a\\n": {},\n')
    assert "行" in text
    assert text.endswith("}\n")
    assert Ledger.load(path, tree).blocks == json.loads(text)["blocks"]
