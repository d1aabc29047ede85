"""Every code fence of the pages is run, or shows a file that is run."""

import itertools
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from pytest_codeblocks.main import extract_from_buffer

from blocks import RUN, Fence, outside, parse
from prose import HEADING, Pages, language, read

ROOT = Path(__file__).parents[1]
PAGES = read(ROOT)

TALLEST, WIDEST = 44, 80  # lines and columns of a file that a page shows: one screen, no scrolling
LONGEST = 8  # lines of a python fence; more belongs in a snippet
INCLUDE = re.compile(r'--8<-- "(?P<file>[^":]+)(?::(?P<section>[^"]*))?"')
FIGURE = re.compile(r'--8<-- "(docs/figures/[\w.-]+\.svg)"')
SCISSORS = re.compile(r"-+8<-+")
SHOW = re.compile(r'(?P<syntax>py|cuda|cpp) title="(?P<title>[^"]+)"(?: hl_lines="[\d -]+")?')
SYNTAX = {".py": ("py",), ".cuh": ("cuda", "cpp"), ".cu": ("cuda", "cpp")}
CONSOLE = re.compile(r"(?:\$ \S.*\n)+")
DATA = ("markdown", "json", "yaml", "toml")
# A run is a line of a fence of plain commands: no condition, here-document or exit can take it back.
COMMANDS = re.compile(r"(?:python(?: [\w./=-]+)+\n)+")
RUNS = re.compile(r"^python (snippets/[\w./-]+\.py)\b", re.MULTILINE)
SHOWABLE = ("snippets/", "camp_softmax/")
MARKED = re.compile(r"--8<-- \[(?:start|end):[\w-]+\]")
CONTAINER = re.compile(r" *(?:(?:[-*+]|\d+[.)]) |!!! |\?\?\?\+? |===[!+]* |\[\^[^]]+\]:)")
HASH = re.compile(r"[ \t>]*(?:(?:[-*+]|\d+[.)])[ \t]+)*#")
SETEXT = re.compile(r" {0,3}(?:=+|-+)[ \t]*")
RAW = re.compile(r"<(?:pre|samp|xmp|h[1-6])\b|<code\b[^>]*\blanguage-", re.IGNORECASE)
GUIDE = "CONTRIBUTING.md"
MARK = "<!--pytest.mark.gpu-->"
EXPECTED = "<!--pytest-codeblocks:expected-output-->"


def code_complaints(pages: Pages, root: Path) -> Iterator[str]:
    """Fences that are none of: a run, its output, the text of a file, commands for the reader."""
    for page, text in pages.items():
        fences = parse(text)
        outputs = [fence.expected for fence in fences if fence.expected]
        for fence in fences:
            where = f"{page}:{fence.line}: `{fence.marker}{fence.info}`"
            lines = [line.strip() for line in fence.body.splitlines() if line.strip()]
            if fence.runs:
                if fence.info == "sh":
                    yield f"{where}: write `bash`, the shell that runs it"
                elif fence.info == "python" and len(fence.body.splitlines()) > LONGEST:
                    yield f"{where} is longer than {LONGEST} lines; make it a file in snippets/"
            elif lines and all(map(INCLUDE.fullmatch, lines)):
                yield from show_complaints(where, fence, root)
            elif fence in outputs or (page == GUIDE and fence.info in DATA):
                continue
            elif fence.info != "console" or not CONSOLE.fullmatch(fence.body):
                yield (
                    f"{where} is never run; use a bare `python` or `bash` fence at the start of"
                    ' its line, include a file (`--8<-- "snippets/…"`), or, for commands that'
                    " tests must not run, `console` with `$ ` before each"
                )


def show_complaints(where: str, fence: Fence, root: Path) -> Iterator[str]:
    """Includes of what is not there, or of another file than the title says."""
    show = SHOW.fullmatch(fence.info)
    for include in INCLUDE.finditer(fence.body):
        name, section = include["file"], include["section"]
        if not show or show["title"] != name or show["syntax"] not in SYNTAX.get(Path(name).suffix, ()):
            yield f'{where} shows {name}; say so with `py` (`cuda` if it is CUDA) title="{name}"'
        if not name.startswith(SHOWABLE) or ".." in name or not (root / name).is_file():
            yield f"{where} includes {name}, which is no file in {' or '.join(SHOWABLE)}"
            continue
        lines = shown(source := (root / name).read_text("utf-8"), section)
        if not lines:
            yield f"{where} includes a section {section}, which {name} does not mark"
        if len(lines) > TALLEST:
            yield f"{where} shows {len(lines)} lines, more than {TALLEST}; show a section"
        if wide := next((line for line in lines if len(line) > WIDEST), None):
            yield f"{where} shows a line of {len(wide)} columns, more than {WIDEST}: {wide.strip()}"
        if len(SCISSORS.findall(source)) != len(MARKED.findall(source)):
            yield f"{where}: {name} itself includes something; only marks of sections may stand in it"


def include_complaints(pages: Pages, root: Path) -> Iterator[str]:
    """Includes elsewhere than in a fence that shows a file, except of figures, and odd spellings of them."""
    for page, text in pages.items():
        fences = {n: fence for fence in parse(text) for n in range(fence.line + 1, fence.end)}
        for number, line in enumerate(text.split("\n"), 1):
            fence, figure = fences.get(number), FIGURE.fullmatch(line)
            if not SCISSORS.search(line):
                continue
            if fence and not fence.runs and SHOW.fullmatch(fence.info) and INCLUDE.fullmatch(line.strip()):
                continue
            if not (fence is None and figure and (root / figure[1]).is_file()) or SCISSORS.search(
                (root / figure[1]).read_text("utf-8")
            ):
                yield (
                    f"{page}:{number}: `{line.strip()}`; an include is spelled"
                    ' `--8<-- "file"`, of a file in a `py title=` fence, or of a figure outside'
                )


def scripts(fence: Fence) -> list[str]:
    """The snippets that a fence runs."""
    plain = fence.runs and fence.info == "bash" and COMMANDS.fullmatch(fence.body)
    return RUNS.findall(fence.body) if plain else []


def card_complaints(pages: Pages, root: Path) -> Iterator[str]:
    """A snippet right above a run that runs something else: they would become one card."""
    for page, text in pages.items():
        lines = text.split("\n")
        for above, fence in itertools.pairwise(parse(text)):
            between = [line.strip() for line in lines[above.end : fence.line - 1]]
            if not fence.runs or any(line and not line.startswith("<!--") for line in between):
                continue
            for name in {include["file"] for include in INCLUDE.finditer(above.body)}:
                if not name.startswith("snippets/") or name in scripts(fence):
                    continue
                sources = [(root / script).read_text("utf-8") for script in scripts(fence)]
                if name.endswith(".py") or not any(Path(name).name in source for source in sources):
                    yield f"{page}:{fence.line}: this block does not run {name}, shown right above it"


def markup_complaints(pages: Pages) -> Iterator[str]:
    """Code and headings in a form that no guard reads."""
    for page, text in pages.items():
        lines = dict(outside(text))
        openings = {fence.line: f"{fence.indent}`" for fence in parse(text)}
        depth, above, comment = 0, "", False
        for number in range(1, text.count("\n") + 2):
            line = openings.get(number, lines.get(number))
            if line is None:
                above = ""
                continue
            level = (len(line) - len(line.lstrip(" "))) // 4
            if line.strip() and not above.strip():
                if level > depth or line.lstrip(" ").startswith("\t"):
                    yield f"{page}:{number}: an indented code block is never run; use a fence"
                depth = min(depth, level)
            if CONTAINER.match(line):
                depth = level + 1
            if HASH.match(line) and not HEADING.fullmatch(line):
                yield f"{page}:{number}: `{line.strip()}`; headings stand at the start of a line, `## Title`"
            if above.strip() and SETEXT.fullmatch(line):
                yield f"{page}:{number}: underlines `{above.strip()}`; write headings as `## Title`"
            if tag := RAW.search(line):
                yield f"{page}:{number}: {tag[0]}; use fences and `##`, which tests read"
            if comment and number in openings:
                yield f"{page}:{number}: a fence in a comment runs and nobody sees it"
            comment = (comment or "<!--" in line) and line.rfind("<!--") >= line.rfind("-->")
            above = line


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
    wanted = {path.relative_to(root).as_posix() for path in files if path.suffix == ".py"}
    for name in ("zh", "en"):
        fences = [fence for text in language(pages, name).values() for fence in parse(text)]
        run = {script for fence in fences for script in scripts(fence)}
        for script in sorted(wanted - run):
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
    pages = {GUIDE: (ROOT / GUIDE).read_text("utf-8")}
    pages |= {
        page: text for page, text in PAGES.items() if page.endswith(".md")
    }  # cells of notebooks all run
    assert not (found := list(code_complaints(pages, ROOT))), "\n".join(found)


def test_every_include_is_a_file_shown_or_a_figure() -> None:
    assert not (found := list(include_complaints(PAGES, ROOT))), "\n".join(found)


def test_every_card_runs_what_it_shows() -> None:
    assert not (found := list(card_complaints(PAGES, ROOT))), "\n".join(found)


def test_code_and_headings_are_written_as_the_guards_read_them() -> None:
    assert not (found := list(markup_complaints(PAGES))), "\n".join(found)


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
    (tmp_path / "docs" / "figures").mkdir(parents=True)
    (tmp_path / "docs" / "figures" / "a.svg").write_text("<svg/>")
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

=== "Tab"

    ```python
    print(1)

    print(2)
    ```

    - a list

        with a paragraph

```console
$ make test   # all
$ make gpu
```

<figure>
--8<-- "docs/figures/a.svg"
</figure>

| a |
|---|

---
"""


def test_a_right_page_passes_all(tree: Path) -> None:
    assert list(code_complaints(page(RIGHT), tree)) == []
    assert list(snippet_complaints(page(RIGHT), tree)) == []
    assert list(include_complaints(page(RIGHT), tree)) == []
    assert list(card_complaints(page(RIGHT), tree)) == []
    assert list(markup_complaints(page(RIGHT))) == []
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
        "```\nx\n```",
        "```text\nx\n```",
        "```json\n{}\n```",
        "```ansi\nx\n```",
        "```console\nmake\n```",
        "```console\n$ make\nall passed\n```",
        '```text title="run.py"\nx\n```',
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
        ('```py\n--8<-- "snippets/a.py"\n```', 'title="snippets/a.py"'),
        ('```text\n--8<-- "snippets/a.py"\n```', 'title="snippets/a.py"'),
        ('```cpp title="snippets/a.py"\n--8<-- "snippets/a.py"\n```', "say so with `py`"),
        ('```py title="snippets/in.py"\n--8<-- "snippets/in.py"\n```', "itself includes something"),
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
    (tree / "snippets" / "in.py").write_text('-8<- "docs/a.txt"\n')
    found = list(code_complaints(page(fence), tree))
    assert len(found) == 2
    assert found[0].startswith("docs/zh/a.md:3: ")
    assert complaint in found[0]


def test_the_guide_may_show_data_and_pages_may_not(tree: Path) -> None:
    assert list(code_complaints({GUIDE: "```json\n{}\n```\n"}, tree)) == []
    assert list(code_complaints({GUIDE: "```python title=a\nx\n```\n"}, tree))


@pytest.mark.parametrize(
    "line",
    [
        '--8<-- "snippets/a.py"',
        '--8<-- "docs/figures/b.svg"',
        '-8<- "docs/figures/a.svg"',
        "--8<-- 'docs/figures/a.svg'",
        '---8<--- "docs/figures/a.svg"',
        ';--8<-- "docs/figures/a.svg"',
        "--8<--\ndocs/a.md\n--8<--",
        '```bash\n--8<-- "snippets/a.py"\n```',
        '```text\n-8<- "snippets/a.py"\n```',
        '```py title="snippets/a.py"\n-8<- "snippets/a.py"\n```',
    ],
)
def test_an_include_elsewhere_is_named(line: str, tree: Path) -> None:
    found = list(include_complaints(page(line), tree))
    assert found
    assert re.match(r"docs/zh/a.md:[34]: ", found[0])


@pytest.mark.parametrize(
    ("shown", "run", "complaints"),
    [
        ("snippets/a.py", "bash\npython snippets/a.py", 0),
        ("snippets/a.py", "bash\npython snippets/b.py", 2),
        ("snippets/a.py", "bash\necho python snippets/a.py", 2),
        ("snippets/a.py", "python\nprint(1)", 2),
        ("snippets/a.cuh", "bash\npython snippets/a.py", 2),
        ("snippets/a.cuh", "bash\npython snippets/b.py", 0),
        ("camp_softmax/a.py", "python\nprint(1)", 0),
    ],
)
def test_a_card_that_runs_something_else_is_named(shown: str, run: str, complaints: int, tree: Path) -> None:
    (tree / "snippets" / "b.py").write_text("read('a.cuh')")
    text = f'```py title="{shown}"\n--8<-- "{shown}"\n```\n\n{MARK}\n\n```{run}\n```'
    assert len(list(card_complaints(page(text), tree))) == complaints
    apart = text.replace(MARK, "words")
    assert list(card_complaints(page(apart), tree)) == []


@pytest.mark.parametrize(
    "text",
    [
        "    x = 1",
        "\tx = 1",
        "- a\n\n        x = 1",
        "- a\n\nb\n\n    x = 1",
        "    ```bash\n    ls\n    ```",
        "<pre>x</pre>",
        '<code class="language-python">x</code>',
        "Title\n=====",
        "Title\n---",
        "<h2>Title</h2>",
        "#Title",
        "- # Title",
        "> ## Title",
        "    # Title",
        "<!--\n```bash\nls\n```\n-->",
        "<!-- a --> <!--\n\n```bash\nls\n```\n-->",
    ],
)
def test_code_and_headings_in_other_forms_are_named(text: str) -> None:
    found = [complaint for complaint in markup_complaints(page(text)) if "/zh/" in complaint]
    assert found
    assert re.match(r"docs/zh/a.md:[34567]: ", found[0])


@pytest.mark.parametrize(
    "body",
    [
        "echo python snippets/a.py",
        "# python snippets/a.py",
        "cat <<E\npython snippets/a.py\nE",
        "exit 0\npython snippets/a.py",
        "python snippets/a.py || true",
        " python snippets/a.py",
    ],
)
def test_a_run_that_may_not_happen_is_none(body: str, tree: Path) -> None:
    found = list(snippet_complaints(page(f"```bash\n{body}\n```\n"), tree))
    assert len(found) == 2


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
