"""How blocks run, are stamped and rewritten: the root conftest on small trees of pages."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from blocks import pages, parse
from notebooks import code_cells, dump, notebooks

ROOT = Path(__file__).parents[1]
CONFIGURATION = """\
[pytest]
addopts = --strict-markers --codeblocks -p no:hypothesispytest -p no:benchmark
pythonpath = docs/hooks
filterwarnings = error
markers =
    gpu: needs a CUDA device
"""
WITH_DEVICE = """
def cuda_available():
    return True

def stamp():
    return {"device": "A device", "commit": None}
"""
EXPECTED = "<!--pytest-codeblocks:expected-output-->"


def block(body: str, expected: str | None = None, info: str = "bash") -> str:
    output = "" if expected is None else f"\n{EXPECTED}\n\n```text\n{expected}```\n"
    return f"```{info}\n{body}```\n{output}\n"


class Tree:
    """A repository of a few pages with the real conftest and recorder."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester, self.root = pytester, pytester.path
        self.ledger = self.root / "docs" / "verified.json"
        hooks = self.root / "docs" / "hooks"
        shutil.copytree(ROOT / "docs" / "hooks" / "record", hooks / "record")
        for name in ("blocks.py", "notebooks.py"):
            shutil.copy(ROOT / "docs" / "hooks" / name, hooks)
        shutil.copy(ROOT / "tests" / "preloaded.py", hooks)
        shutil.copy(ROOT / "conftest.py", self.root)
        self.write("pytest.ini", CONFIGURATION)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def pages(self, text: str, other: str | None = None) -> None:
        self.write("docs/zh/a.md", text)
        self.write("docs/en/a.md", text if other is None else other)

    def notebook(self, sources: list[str], *outputs: list[dict]) -> None:
        """One in both languages; cells without an output of their own have none."""
        cells = [
            {"cell_type": "code", "id": f"cell-{number}", "metadata": {"alt": "a"}, "source": text}
            for number, text in enumerate(sources)
        ]
        text = dump(json.dumps({"cells": cells}), [*outputs, *[[]] * (len(sources) - len(outputs))])
        for language in ("zh", "en"):
            self.write(f"docs/{language}/labs/a.ipynb", text)

    def stored(self, language: str) -> list[list[dict]]:
        return [
            cell["outputs"]
            for cell in code_cells((self.root / "docs" / language / "labs" / "a.ipynb").read_text("utf-8"))
        ]

    def run(self, *arguments: str, device: bool | None = False) -> pytest.RunResult:
        if device is not None:
            answer = "def cuda_available():\n    return False\n"
            source = (ROOT / "conftest.py").read_text("utf-8")
            self.write("conftest.py", source + (WITH_DEVICE if device else answer))
        return self.pytester.runpytest_subprocess("docs", "-rs", *arguments)

    def stamp(self, *arguments: str) -> pytest.RunResult:
        return self.run("--stamp", "docs/verified.json", *arguments, device=True)

    def records(self) -> dict[str, dict]:
        return json.loads(self.ledger.read_text("utf-8"))["blocks"]


@pytest.fixture
def tree(pytester: pytest.Pytester) -> Tree:
    return Tree(pytester)


COUNTED = "echo once >> runs\necho 1\n"


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_a_block_runs_once_and_each_page_is_held_to_it(tree: Tree, workers: tuple[str]) -> None:
    tree.pages(block(COUNTED, "1\n") + block("true\n"), block(COUNTED, "2\n") + block("true\n"))
    result = tree.run(*workers)
    result.assert_outcomes(passed=3, failed=1)
    assert (tree.root / "runs").read_text() == "once\n"
    lines = ["*docs/en/a.md:1: printed something else:", "-2", "+1", "echo once >> runs"]
    result.stdout.fnmatch_lines(lines)


def test_failures_show_the_scripts_own_traceback(tree: Tree) -> None:
    tree.write("snippets/a.py", "print('before')\n1 / 0\n")
    tree.pages(block("python snippets/a.py\n"), block("x = 1\nx.y\n", info="python"))
    result = tree.run()
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "docs/en/a.md:1: exited with 1",
            '  File "*block.py", line 2, in <module>',
            "AttributeError: *",
            "docs/zh/a.md:1: exited with 1",
            "before",
            "python snippets/a.py",
            '  File "*/snippets/a.py", line 2, in <module>',
            "ZeroDivisionError: division by zero",
        ]
    )
    result.stdout.no_fnmatch_line("*conftest.py:*")


def test_bash_stops_at_the_first_error(tree: Tree) -> None:
    tree.pages(block("false\necho on\n"), block("false | true\n") + block('echo "$UNSET"\n'))
    tree.run().assert_outcomes(failed=3)


def test_blocks_run_the_way_a_reader_runs_them(tree: Tree) -> None:
    tree.pages(
        block(
            "import inspect, sys\nfrom warnings import warn\ndef f(): pass\n"
            "print(__name__, repr(sys.stdin.read()), inspect.getsource(f).strip())\n",
            "__main__ '' def f(): pass\n",
            info="python",
        )
        # an indented fence keeps its blank lines
        + '=== "Tab"\n\n'
        + "    ```python\n    print(1)\n\n    print('')\n    ```\n\n"
        + f"    {EXPECTED}\n\n    ```text\n    1\n\n    ```\n",
        block("python -c 'import sys; print(sys.executable, file=sys.stderr)' 2> which\n")
        + block("python -c 'import warnings; warnings.warn(\"x\")' && false || echo failed\n")
        + block("sleep 60 &\npwd > where\n"),
    )
    tree.run().assert_outcomes(passed=5)
    assert Path((tree.root / "where").read_text().strip()) == tree.root


def test_what_needs_a_device_is_skipped_without_one(tree: Tree) -> None:
    tree.pages("<!--pytest.mark.gpu-->\n\n" + block("false\n") + block("true\n"))
    result = tree.run()
    result.assert_outcomes(passed=2, skipped=2)
    result.stdout.fnmatch_lines(["SKIPPED*needs a CUDA device"])


def test_a_block_that_hangs_is_ended(tree: Tree) -> None:
    tree.pages(block("sleep 600\n"))
    source = (ROOT / "conftest.py").read_text("utf-8")
    tree.write("conftest.py", source.replace("TIMEOUT = 300", "TIMEOUT = 0.2"))
    result = tree.run(device=None)
    result.stdout.fnmatch_lines(["docs/zh/a.md:1: was still running after 0.2 s"])


def test_outputs_are_rewritten_in_both_languages(tree: Tree) -> None:
    indented = f'=== "Tab"\n\n    ```bash\n    echo 1\n    echo\n    echo 2\n    ```\n\n    {EXPECTED}\n\n'
    page = block("printf 'a\\n'\n", "{}") + indented + "    ```text\n{}    ```\n" + block("true\n", "{}")
    tree.pages("# 一\n" + page.format("", "", "x\n"), "# One\n" + page.format("x\ny\n", "    3\n", ""))
    tree.run("--update-outputs").assert_outcomes(passed=6)
    for path, title in (("docs/zh/a.md", "# 一\n"), ("docs/en/a.md", "# One\n")):
        text = (tree.root / path).read_text("utf-8")
        assert text == title + page.format("a\n", "    1\n\n    2\n", "")
    tree.run().assert_outcomes(passed=6)


def test_a_page_keeps_its_line_endings(tree: Tree) -> None:
    tree.pages(page := block("echo 1\n", "x\n"))
    (tree.root / "docs" / "zh" / "a.md").write_bytes(page.replace("\n", "\r\n").encode())
    tree.run("--update-outputs").assert_outcomes(passed=2)
    right = block("echo 1\n", "1\n")
    assert (tree.root / "docs" / "zh" / "a.md").read_bytes() == right.replace("\n", "\r\n").encode()
    assert (tree.root / "docs" / "en" / "a.md").read_bytes() == right.encode()


def test_an_output_that_would_end_its_fence_is_refused(tree: Tree) -> None:
    tree.pages(page := block("echo '```'\n", "x\n"))
    result = tree.run("--update-outputs")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*printed ``` at the start of a line, which would end its fence"])
    assert (tree.root / "docs" / "zh" / "a.md").read_text("utf-8") == page


def test_a_block_that_fails_keeps_its_output(tree: Tree) -> None:
    tree.pages(page := block("false\n", "x\n"))
    tree.run("--update-outputs").assert_outcomes(failed=2)
    assert (tree.root / "docs" / "zh" / "a.md").read_text("utf-8") == page


def test_stamping_wants_a_device_and_blocks(tree: Tree) -> None:
    tree.pages(block("true\n"))
    result = tree.run("--stamp", "docs/verified.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *there is no CUDA device here"])
    tree.write("pytest.ini", CONFIGURATION.replace(" --codeblocks", ""))
    tree.run("--update-outputs").stderr.fnmatch_lines(["ERROR: * need --codeblocks"])


def test_stamps_are_merged_into_the_ledger(tree: Tree) -> None:
    tree.write("camp_softmax/__init__.py", "")
    tree.write("camp_softmax/a.cuh", "//")
    tree.write("snippets/a.py", "open('camp_softmax/a.cuh').close()\nprint('行')\n")
    wrong = block("echo a\n", "b\n")
    tree.pages(
        block("python snippets/a.py\n") + block("echo a\n", "a\n") + block("exit 3\n"),
        block("python snippets/a.py\n") + wrong + block("import camp_softmax\n", info="python"),
    )
    old = {"echo a\n": {"kept": 1}, "exit 3\n": {"kept": 2}, "gone\n": {}}
    tree.ledger.write_text(json.dumps({"blocks": old}))
    tree.stamp("-n", "2").assert_outcomes(passed=4, failed=2)
    records = tree.records()
    assert records.pop("echo a\n") == {"kept": 1}
    assert records.pop("exit 3\n") == {"kept": 2}
    assert records.keys() == {"python snippets/a.py\n", "import camp_softmax\n"}
    record = records["python snippets/a.py\n"]
    assert list(record["files"]) == ["camp_softmax/a.cuh", "snippets/a.py"]
    assert record["seconds"] > 0
    del record["seconds"], record["files"]
    stamp = {"device": "A device", "commit": None}
    assert record == {"output": "行\n", "kernels": [], "stamp": stamp}
    assert list(records["import camp_softmax\n"]["files"]) == ["camp_softmax/__init__.py"]


def test_a_block_is_stamped_only_if_all_its_pages_ran(tree: Tree) -> None:
    tree.write("snippets/a.py", "")
    tree.pages(block("python snippets/a.py\n"))
    tree.stamp("--deselect", "docs/en/a.md::line 1").assert_outcomes(passed=1, deselected=1)
    assert tree.records() == {}


def test_a_bare_block_without_files_is_recorded_by_its_text(tree: Tree) -> None:
    tree.pages(block("print(1)\n", info="python", expected="1\n"))
    tree.stamp().assert_outcomes(passed=2)
    (record,) = tree.records().values()
    assert (record["files"], record["output"]) == ({}, "1\n")


@pytest.mark.parametrize(
    ("body", "info", "problem"),
    [
        ("python -c ''\n", "bash", "this block runs no file of the repository; *"),
        ("cat a.txt\necho >> a.txt\n", "bash", "a.txt changed while this block ran"),
        ("import a\nopen('a.py', 'a').write('#')\n", "python", "a.py changed while this block ran"),
    ],
)
def test_files_that_cannot_be_recorded_are_refused(tree: Tree, body: str, info: str, problem: str) -> None:
    tree.write("a.txt", "")
    tree.write("a.py", "")
    tree.pages(block(body, info=info))
    result = tree.stamp()
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines([f"docs/zh/a.md:1: {problem}"])
    assert tree.records() == {}


def test_a_file_that_a_block_names_is_recorded(tree: Tree) -> None:
    tree.write("data/a.txt", "")
    tree.pages(block("cat data/a.txt\n"))
    tree.stamp().assert_outcomes(passed=2)
    assert list(tree.records()["cat data/a.txt\n"]["files"]) == ["data/a.txt"]


def uncollected(root: Path) -> list[str]:
    """The run blocks and notebooks that `pytest --codeblocks` with the pages of `make test` does not see."""
    arguments = ["-q", "--collect-only", "--codeblocks", "-p", "no:cacheprovider", "-p", "no:xdist", "docs"]
    arguments += [path.name for path in root.glob("README*.md")]
    command = [sys.executable, "-m", "pytest", *arguments]
    told = subprocess.run(command, cwd=root, capture_output=True, text=True).stdout.splitlines()
    wanted = [
        f"{page.relative_to(root)}::line {fence.line}"
        for page in pages(root)
        for fence in parse(page.read_text("utf-8"))
        if fence.runs
    ]
    wanted += [f"{path.relative_to(root)}::cells" for path in notebooks(root)]
    return sorted(set(wanted) - set(told))


def strangers(root: Path) -> list[str]:
    """What MkDocs may show and no guard reads: pages are *.md or *.ipynb, in docs/zh and docs/en."""
    files = [path.relative_to(root) for path in (root / "docs").rglob("*") if path.is_file()]
    return sorted(
        path.as_posix()
        for path in files
        if (path.parts[1] in ("zh", "en")) != (path.suffix in (".md", ".ipynb"))
    )


def test_every_run_block_is_collected() -> None:
    assert uncollected(ROOT) == []


def test_there_are_only_pages_where_pages_are() -> None:
    assert strangers(ROOT) == []


def test_a_block_that_is_not_collected_is_named(tree: Tree) -> None:
    for name in ("zh/hooks/a.md", "zh/browser/a.md", "hooks/a.md", "zh/.a/b.md"):
        tree.write(f"docs/{name}", block("true\n"))
    tree.notebook(["1"])
    (tree.root / "docs" / "zh" / "labs").rename(tree.root / "docs" / "zh" / ".labs")
    assert uncollected(tree.root) == [
        "docs/hooks/a.md::line 1",
        "docs/zh/.a/b.md::line 1",
        "docs/zh/.labs/a.ipynb::cells",
    ]


def test_files_that_are_no_pages_are_named(tree: Tree) -> None:
    for name in ("zh/a.md", "zh/a.mdown", "en/a.ipynb", "a.md", "figures/a.ipynb", "figures/a.svg"):
        tree.write(f"docs/{name}", "")
    assert strangers(tree.root) == ["docs/a.md", "docs/figures/a.ipynb", "docs/zh/a.mdown"]


@pytest.mark.parametrize("body", ["python -c 'import os; os._exit(0)'\n", "python -I -c ''\n"])
def test_a_run_without_a_record_is_not_stamped(tree: Tree, body: str) -> None:
    tree.pages(block(body))
    result = tree.stamp()
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*a Python process of this block ended without its record"])
    assert tree.records() == {}


PRINTED = {"output_type": "stream", "name": "stdout", "text": ["1\n"]}
COUNT = "with open({!r}, 'a') as runs:\n    runs.write('x')"
DRAWING = "from IPython.display import SVG\nSVG('<svg><title>1</title></svg>')"


@pytest.fixture
def jupyter() -> None:
    for name in ("nbclient", "ipykernel"):
        pytest.importorskip(name)


@pytest.mark.usefixtures("jupyter")
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_a_notebook_runs_once_and_each_language_is_held_to_it(tree: Tree, workers: tuple[str]) -> None:
    runs = tree.root / "runs"
    tree.notebook(["x = 1", f"{COUNT.format(str(runs))}\nprint(x)"], [], [PRINTED])
    text = (tree.root / "docs/en/labs/a.ipynb").read_text("utf-8")
    tree.write("docs/en/labs/a.ipynb", text.replace('"1\\n"', '"2\\n"'))
    result = tree.run(*workers)
    result.assert_outcomes(passed=1, failed=1)
    assert runs.read_text() == "x"
    lines = ["docs/en/labs/a.ipynb: cell cell-1: has another output:", "-2", "+1", "print(x)"]
    result.stdout.fnmatch_lines(lines)


@pytest.mark.usefixtures("jupyter")
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import warnings\nwarnings.warn('x')", "UserWarning: x"),
        ("import sys\nprint('x', file=sys.stderr)", "*: cell cell-0: a page shows no stderr: x"),
        ("import os\nos._exit(1)", "*: Kernel died"),
    ],
)
def test_a_cell_that_fails_fails_its_notebook(tree: Tree, text: str, complaint: str) -> None:
    tree.notebook([text])
    result = tree.run("--update-outputs")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines([complaint])
    assert tree.stored("zh") == [[]]


@pytest.mark.usefixtures("jupyter")
def test_a_kernel_is_fresh_and_elsewhere(tree: Tree) -> None:
    tree.write("camp_softmax/__init__.py", "x = 1\n")
    cell = "from pathlib import Path\nfrom camp_softmax import x\npath = Path('a.txt')\n"
    tree.notebook([f"{cell}print(x + path.exists())\npath.touch()"], [PRINTED])
    tree.run().assert_outcomes(passed=2)
    tree.run().assert_outcomes(passed=2)
    assert not list(tree.root.rglob("a.txt"))


@pytest.mark.usefixtures("jupyter")
def test_outputs_of_notebooks_are_rewritten_in_both_languages(tree: Tree) -> None:
    count = COUNT.format(str(tree.root / "runs"))
    tree.notebook([f"{count}\nwith open(runs.name) as runs:\n    print(len(runs.read()))", "'a'", DRAWING])
    tree.run("--update-outputs").assert_outcomes(passed=2)
    assert tree.stored("zh") == tree.stored("en")
    printed, value, picture = tree.stored("zh")
    assert printed == [PRINTED]
    assert [output["data"] for output in value] == [{"text/plain": ["'a'"]}]
    assert [[*output["data"]] for output in picture] == [["image/svg+xml"]]


@pytest.mark.usefixtures("jupyter")
def test_a_picture_has_to_be_there_and_may_differ(tree: Tree) -> None:
    tree.notebook([DRAWING])
    tree.run().assert_outcomes(failed=2)
    tree.run("--update-outputs").assert_outcomes(passed=2)
    text = (tree.root / "docs/zh/labs/a.ipynb").read_text("utf-8")
    assert '"<svg><title>1' in text
    tree.write("docs/zh/labs/a.ipynb", text.replace('"<svg><title>1', '"<svg><title>2'))
    tree.run().assert_outcomes(passed=2)


def test_a_machine_without_jupyter_skips_notebooks(tree: Tree) -> None:
    tree.notebook(["1 / 0"])
    source = (ROOT / "conftest.py").read_text("utf-8")
    tree.write("conftest.py", f"{source}\nsys.modules['nbclient'] = None\n")
    result = tree.run(device=None)
    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines(["SKIPPED*could not import 'nbclient'*"])
