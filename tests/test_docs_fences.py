"""Every code fence of the pages is run, or shows a file that is run."""

import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from pytest_codeblocks.main import extract_from_buffer

from blocks import RUN, SCRIPT, Fence, outside, parse
from prose import Pages, language, read

ROOT = Path(__file__).parents[1]
PAGES = read(ROOT)

CODE = re.compile(
    r"py|py3|pyi|python3?|python-repl|pycon|ipython|cython|c|h|cc|cpp|cxx|c\+\+|hpp|h\+\+|cuda|cuh?"
    r"|sh|bash|zsh|ksh|fish|shell|shell-session|sh-session"
)
TALLEST, WIDEST = 44, 80  # lines and columns of a file that a page shows: one screen, no scrolling
LONGEST = 8  # lines of a python fence; more belongs in a snippet
INCLUDE = re.compile(r'--8<-- "(?P<file>[^":]+)(?::(?P<section>[^"]*))?"')
SHOWABLE = ("snippets/", "camp_softmax/")
MARK = "<!--pytest.mark.gpu-->"
EXPECTED = "<!--pytest-codeblocks:expected-output-->"


def syntax(info: str) -> str:
    """The language of a fence, as a highlighter reads `python title=…`, `{.python}`, `.py`."""
    match = re.search(r"\.([\w+#-]+)", info) if info.startswith("{") else None
    match = match or re.match(r"\.?([\w+#-]+)", info)
    return match[1].lower() if match else ""


def code_complaints(pages: Pages, root: Path) -> Iterator[str]:
    """Code that is neither run nor the text of a file."""
    for page, text in pages.items():
        for fence in parse(text):
            if not CODE.fullmatch(syntax(fence.info)):
                continue
            where = f"{page}:{fence.line}: `{fence.marker}{fence.info}`"
            lines = [line.strip() for line in fence.body.splitlines() if line.strip()]
            includes = [INCLUDE.fullmatch(line) for line in lines]
            if fence.runs:
                if any("--8<--" in line for line in lines):
                    yield f"{where} runs, so it cannot include; show files in `py title=` fences"
                elif fence.info == "sh":
                    yield f"{where}: write `bash`, the shell that runs it"
                elif fence.info == "python" and len(fence.body.splitlines()) > LONGEST:
                    yield f"{where} is longer than {LONGEST} lines; make it a file in snippets/"
            elif not lines or not all(includes):
                yield (
                    f"{where} is never run; use a bare `python` or `bash` fence at the start of"
                    ' its line, include a file (`--8<-- "snippets/…"`), or, for commands that'
                    " tests must not run, `console`"
                )
            else:
                yield from include_complaints(where, fence, root)


def include_complaints(where: str, fence: Fence, root: Path) -> Iterator[str]:
    """Includes of what is not there, or of another file than the title says."""
    title = re.search(r'title="([^"]*)"', fence.info)
    for include in INCLUDE.finditer(fence.body):
        name, section = include["file"], include["section"]
        if not title or title[1] != name:
            yield f'{where} shows {name}; say so with title="{name}"'
        if not name.startswith(SHOWABLE) or not (root / name).is_file():
            yield f"{where} includes {name}, which is no file in {' or '.join(SHOWABLE)}"
            continue
        lines = shown((root / name).read_text("utf-8"), section)
        if not lines:
            yield f"{where} includes a section {section}, which {name} does not mark"
        if len(lines) > TALLEST:
            yield f"{where} shows {len(lines)} lines, more than {TALLEST}; show a section"
        if wide := next((line for line in lines if len(line) > WIDEST), None):
            yield f"{where} shows a line of {len(wide)} columns, more than {WIDEST}: {wide.strip()}"


def shown(text: str, section: str | None) -> list[str]:
    """The lines of a file, or of a section of it; the marks of sections are not shown."""
    if section:
        start, end = (rf"--8<-- \[{side}:{re.escape(section)}\]" for side in ("start", "end"))
        found = re.search(rf"{start}\n(.*)\n[^\n]*{end}", text, re.DOTALL)
        text = found[1] if found else ""
    return [line for line in text.strip().splitlines() if "--8<--" not in line]


def snippet_complaints(pages: Pages, root: Path) -> Iterator[str]:
    """Snippets that no page runs, and other files there that nothing uses."""
    files = [path for path in sorted((root / "snippets").rglob("*")) if path.is_file()]
    files = [path for path in files if "__pycache__" not in path.parts]
    scripts = {path.relative_to(root).as_posix() for path in files if path.suffix == ".py"}
    for name in ("zh", "en"):
        fences = [fence for text in language(pages, name).values() for fence in parse(text)]
        run = {script for fence in fences if fence.runs for script in SCRIPT.findall(fence.body)}
        for script in sorted(scripts - run):
            yield f"{script}:1: no page in docs/{name} runs it; add a `bash` fence that does"
    for path in files:
        sources = (file.read_text("utf-8") for file in files if file.suffix == ".py")
        if path.suffix != ".py" and not any(path.name in source for source in sources):
            yield f"{path.relative_to(root).as_posix()}:1: no snippet names this file; delete it"


def comment_complaints(pages: Pages) -> Iterator[str]:
    """Comments for pytest-codeblocks that say something else, or nothing, about their block."""
    for page, text in pages.items():
        fences = parse(text)
        outputs = {
            number
            for fence in fences
            if fence.expected
            for number in range(fence.end + 1, fence.expected.line)
        }
        marked = {fence.line for fence in fences if fence.runs and fence.marks}
        lines = dict(outside(text))
        for number, line in lines.items():
            below = next((n for n in range(number + 1, max(lines) + 1) if lines.get(n) != ""), 0)
            if "<!--" not in line or "pytest" not in line:
                continue
            if line.strip() not in (MARK, EXPECTED):
                yield f"{page}:{number}: `{line.strip()}`; only {MARK} and {EXPECTED} work here"
            elif line.strip() == MARK and below not in marked:
                yield f"{page}:{number}: {MARK} marks nothing; put it right above a run fence"
            elif line.strip() == EXPECTED and number not in outputs:
                yield (
                    f"{page}:{number}: this output belongs to no block; between a run fence, the"
                    " comment and a `text` fence there may be nothing but blank lines"
                )
        for fence in fences:
            if fence.expected and fence.expected.info != "text":
                found = fence.expected.info
                yield f"{page}:{fence.expected.line}: `{found}` as output; make it a `text` fence"


def collector_complaints(pages: Pages) -> Iterator[str]:
    """Fences that pytest-codeblocks reads otherwise than Markdown and we do."""
    for page, text in pages.items():
        try:
            blocks = extract_from_buffer(StringIO(text))
        except RuntimeError as error:
            yield f"{page}:1: pytest-codeblocks stops here: {error}"
            continue
        theirs = {
            (block.lineno, block.syntax, solid(block.code), solid(block.expected_output or ""))
            for block in blocks
            if block.syntax in RUN
        }
        ours = {
            (f.line, f.info, solid(f.body), solid(f.expected.body if f.expected else ""))
            for f in parse(text)
            if f.runs
        }
        for line, *_ in sorted(theirs ^ ours):
            yield (
                f"{page}:{line}: pytest-codeblocks and Markdown read this fence differently;"
                " a line inside a fence must not look like a marker"
            )


def solid(text: str) -> str:
    """The text without blank lines: pytest-codeblocks loses those of an indented fence."""
    return "".join(line for line in text.splitlines(keepends=True) if line.strip())


def test_every_code_fence_runs_or_includes() -> None:
    assert not (found := list(code_complaints(PAGES, ROOT))), "\n".join(found)


def test_every_snippet_is_run() -> None:
    assert not (found := list(snippet_complaints(PAGES, ROOT))), "\n".join(found)


def test_every_comment_binds() -> None:
    assert not (found := list(comment_complaints(PAGES))), "\n".join(found)


def test_pytest_codeblocks_reads_the_same_fences() -> None:
    assert not (found := list(collector_complaints(PAGES))), "\n".join(found)


def page(text: str) -> Pages:
    """One page in both languages, the fault on its third line."""
    return {f"docs/{name}/a.md": f"# A\n\n{text}" for name in ("zh", "en")}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "snippets").mkdir()
    part = "# --8<-- [start:part]\nprint(1)\n# --8<-- [end:part]\n"
    (tmp_path / "snippets" / "a.py").write_text(part)
    return tmp_path


RIGHT = """\
```py title="snippets/a.py" hl_lines="1"
--8<-- "snippets/a.py:part"
```

<!--pytest.mark.gpu-->

```bash
python snippets/a.py
```

<!--pytest-codeblocks:expected-output-->

```text
1
```

    ```python
    print(1)

    print(2)
    ```

```console
make test
```

```json
{}
```
"""


def test_a_right_page_passes_all(tree: Path) -> None:
    assert list(code_complaints(page(RIGHT), tree)) == []
    assert list(snippet_complaints(page(RIGHT), tree)) == []
    assert list(comment_complaints(page(RIGHT))) == []
    assert list(collector_complaints(page(RIGHT))) == []


@pytest.mark.parametrize(
    "fence",
    [
        '```python title="a.py"\nx\n```',
        "```py\nx\n```",
        "```py\n```",
        "~~~python\nx\n~~~",
        "~~~ bash\nls\n~~~",
        "```{.python}\nx\n```",
        "```{ .py }\nx\n```",
        '```{ #id .py title="a" }\nx\n```',
        "```.python\nx\n```",
        "```Python\nx\n```",
        "```python3\nx\n```",
        "``` python\nx\n```",
        "````pycon\n>>> x\n````",
        "```cpp\nx\n```",
        "```c++\nx\n```",
        "```cuda\nx\n```",
        "```cu\nx\n```",
        "```shell\nls\n```",
        "```zsh\nls\n```",
        "> ```python\n> x\n> ```",
        "- ```python\n  x\n  ```",
        '=== "Tab"\n    ```c\n    x\n    ```',
        '```py title="snippets/a.py"\n--8<-- "snippets/a.py"\nx\n```',
    ],
)
def test_code_that_is_never_run_is_named(fence: str, tree: Path) -> None:
    found = list(code_complaints(page(fence), tree))
    assert len(found) == 2
    assert re.match(r"docs/zh/a.md:[34]: `.*` is never run; use a bare `python` or `bash`", found[0])


@pytest.mark.parametrize(
    ("fence", "complaint"),
    [
        ("```sh\nls\n```", "write `bash`"),
        ("```python\n" + "x = 1\n" * 9 + "```", "is longer than 8 lines"),
        ('```python\n--8<-- "snippets/a.py"\n```', "runs, so it cannot include"),
        ('```py\n--8<-- "snippets/a.py"\n```', 'say so with title="snippets/a.py"'),
        ('```py title="snippets/b.py"\n--8<-- "snippets/a.py"\n```', "shows snippets/a.py"),
        ('```py title="snippets/b.py"\n--8<-- "snippets/b.py"\n```', "which is no file in"),
        ('```py title="docs/a.py"\n--8<-- "docs/a.py"\n```', "which is no file in snippets/ or"),
        ('```py title="snippets/a.py"\n--8<-- "snippets/a.py:x"\n```', "includes a section x"),
        ('```py title="snippets/long.py"\n--8<-- "snippets/long.py"\n```', "shows 45 lines, more than 44"),
        ('```py title="snippets/wide.py"\n--8<-- "snippets/wide.py"\n```', "shows a line of 81 columns"),
    ],
)
def test_wrong_runs_and_includes_are_named(fence: str, complaint: str, tree: Path) -> None:
    (tree / "snippets" / "long.py").write_text("x = 1\n" * 45)
    (tree / "snippets" / "wide.py").write_text("x" * 81 + "\n")
    found = list(code_complaints(page(fence), tree))
    assert len(found) == 2
    assert found[0].startswith("docs/zh/a.md:3: ")
    assert complaint in found[0]


def test_a_snippet_that_one_language_does_not_run_is_named(tree: Path) -> None:
    pages = page(RIGHT) | {"docs/en/a.md": "# A\n"}
    (found,) = snippet_complaints(pages, tree)
    assert found.startswith("snippets/a.py:1: no page in docs/en runs it")


def test_a_stray_file_among_the_snippets_is_named(tree: Path) -> None:
    (tree / "snippets" / "naive.cuh").touch()
    (found,) = snippet_complaints(page(RIGHT), tree)
    assert found.startswith("snippets/naive.cuh:1: no snippet names this file")


BLOCK = "```bash\nls\n```"
TEXT = "```text\na\n```"


@pytest.mark.parametrize(
    ("parts", "line", "complaint"),
    [
        ([EXPECTED, TEXT], 3, "belongs to no block"),
        ([BLOCK, EXPECTED, "words", TEXT], 7, "belongs to no block"),
        ([BLOCK, "words", EXPECTED, TEXT], 9, "belongs to no block"),
        (["```console\nls\n```", EXPECTED, TEXT], 7, "belongs to no block"),
        ([BLOCK, TEXT, EXPECTED, TEXT], 11, "belongs to no block"),
        ([BLOCK, EXPECTED], 7, "belongs to no block"),
        ([BLOCK, EXPECTED, "```json\na\n```"], 9, "make it a `text` fence"),
        ([MARK, "words", BLOCK], 3, "marks nothing"),
        ([MARK, TEXT, BLOCK], 3, "marks nothing"),
        (["<!--pytest.mark.skip-->", BLOCK], 3, "only <!--pytest.mark.gpu-->"),
        (["<!--pytest.mark.xfail-->", BLOCK], 3, "only <!--pytest.mark.gpu-->"),
        ([BLOCK, "<!--pytest-codeblocks:cont-->", BLOCK], 7, "only <!--pytest.mark.gpu-->"),
        (["<!--pytest-codeblocks:importorskip(torch)-->", BLOCK], 3, "only <!--pytest"),
        (["<!--pytest-codeblocks:skipfile-->", BLOCK], 3, "only <!--pytest"),
        ([BLOCK, "<!-- pytest-codeblocks:expected-output-ignore-whitespace -->", TEXT], 7, "only"),
    ],
)
def test_comments_that_bind_wrongly_are_named(parts: list[str], line: int, complaint: str) -> None:
    found = [text for text in comment_complaints(page("\n\n".join(parts))) if "/zh/" in text]
    assert any(text.startswith(f"docs/zh/a.md:{line}: ") and complaint in text for text in found)


@pytest.mark.parametrize(
    "fence",
    [
        "~~~text\n```bash\nls\n```\n~~~",
        "```bash\ncat <<E\n```text\nE\n```",
        f"{BLOCK}\n\n{EXPECTED}\n\nwords\n\n{TEXT}",
    ],
)
def test_fences_that_pytest_codeblocks_reads_otherwise_are_named(fence: str) -> None:
    found = list(collector_complaints(page(fence)))
    assert found
    assert all("pytest-codeblocks" in text for text in found)
