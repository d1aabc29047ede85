"""What pytest-codeblocks leaves out: one run for all the pages that show a block, as a reader's.

`pytest --codeblocks docs README.md` collects as ever. Here each block runs in a child process, with
`python` on PATH and its own traceback if it fails; `--update-outputs` writes what it printed into
the pages, and `--stamp docs/verified.json` what it ran on into the ledger. The cells of a notebook
run in a fresh kernel, once for both languages, and are held to the outputs it stores.
"""

import contextlib
import difflib
import functools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
import pytest_codeblocks.plugin

import preloaded
from blocks import Fence, Ledger, changed_since, lines_of, pages, parse, sha256
from notebooks import PLAIN, code_cells, dump, kept, shown, source

pytest_plugins = ["pytester"]
# They need MkDocs and Chromium, where a path asks for them, and Triton.
collect_ignore = ["docs/hooks", "tests/browser", "camp_softmax/bench/triton_row.py"]

ROOT = Path(__file__).parent
RECORDER = ROOT / "docs" / "hooks" / "record"
TIMEOUT = 300  # seconds: a block that waits for something must not hang the session


@functools.cache
def fences(page: Path) -> dict[int, Fence]:
    """The fences of a page by the line they open on."""
    return {fence.line: fence for fence in parse(page.read_text("utf-8"))}


@dataclass(frozen=True)
class Run:
    """One execution of a block."""

    output: str
    errors: str
    problem: str  # empty if it went well
    seconds: float
    files: dict[str, str | None] = field(default_factory=dict)  # with digests, when recording
    kernels: list[str] = field(default_factory=list)


class Block(pytest_codeblocks.plugin.TestBlock):
    """A block on one page, held to the one run of its text."""

    @functools.cached_property
    def fence(self) -> Fence:
        """The fence by our own parser, which keeps the blank lines of an indented one."""
        fence = fences(self.path).get(self.obj.lineno)
        if fence is None:
            pytest.fail(f"{self.where()}: only pytest-codeblocks sees a fence here", pytrace=False)
        return fence

    def runtest(self) -> None:
        options, fence = self.config.option, self.fence
        self.user_properties.append(("block", fence.body))
        run = execute(fence.info, fence.body, recording=bool(options.stamp))
        if run.problem:
            self.fail(f"{run.problem}\n\n{run.output}", run)
        if fence.expected and not options.update_outputs:
            sides = lines_of(fence.expected.body), lines_of(run.output)
            diff = list(difflib.unified_diff(*sides, "expected", "printed", lineterm="", n=9))
            if diff:
                self.fail("\n".join(["printed something else:", *diff]), run)
        if fence.expected and any(
            line.lstrip().startswith(fence.expected.marker) for line in lines_of(run.output)
        ):
            self.fail(
                f"printed {fence.expected.marker} at the start of a line, which would end its fence", run
            )
        if options.stamp or options.update_outputs:
            self.user_properties.append(("run", asdict(run)))

    def fail(self, problem: str, run: Run) -> None:
        """Say where the block stands, what is wrong, and what it wrote to stderr."""
        parts = f"{self.where()}: {problem}", self.fence.body, run.errors
        pytest.fail("\n\n".join(part.strip() for part in parts if part.strip()), pytrace=False)

    def where(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.obj.lineno}"

    def repr_failure(self, excinfo):
        return pytest.Item.repr_failure(self, excinfo)

    def reportinfo(self):
        return self.path, self.obj.lineno - 1, self.where()


pytest_codeblocks.plugin.TestBlock = Block  # its collector makes these now


class Notebook(pytest.File):
    """A notebook, of which all cells are one test: each needs those above it."""

    def collect(self) -> Iterator["Cells"]:
        yield Cells.from_parent(self, name="cells")


class Cells(pytest.Item):
    """The code cells of one notebook, held to the one run of their text."""

    def runtest(self) -> None:
        for name in ("nbclient", "ipykernel"):  # extra `test` has them; `make gpu` may run without
            pytest.importorskip(name)
        cells = code_cells(self.path.read_text("utf-8"))
        outputs, problem = execute_cells(tuple(map(source, cells)))
        if problem:
            self.fail(problem)
        fresh = [self.compared(cell, raw) for cell, raw in zip(cells, outputs, strict=True)]
        if self.config.option.update_outputs:
            self.user_properties.append(("notebook", [str(self.path), fresh]))

    def compared(self, cell: dict, raw: list[dict]) -> list[dict]:
        """The outputs that the run gave a cell, once they are those that the notebook stores."""
        try:
            fresh = kept(raw)
            if not self.config.option.update_outputs:
                sides = told(kept(cell["outputs"])), told(fresh)
                diff = list(difflib.unified_diff(*sides, "stored", "fresh", lineterm="", n=9))
                if diff:
                    raise ValueError("\n".join(["has another output:", *diff]))
        except ValueError as error:
            self.fail(f"cell {cell['id']}: {error}\n\n{source(cell)}")
        return fresh

    def fail(self, problem: str) -> NoReturn:
        pytest.fail(f"{self.path.relative_to(ROOT)}: {problem}", pytrace=False)

    def reportinfo(self):
        return self.path, None, f"{self.path.relative_to(ROOT)}: cells"


def told(outputs: list[dict]) -> list[str]:
    """What outputs are compared by: the lines of texts; of a picture, whose last digits differ, its kind."""
    parts = [lines_of(text) if mime == PLAIN else [f"({mime})"] for mime, text in map(shown, outputs)]
    return [line for part in parts for line in part]


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Notebook | None:
    if file_path.suffix == ".ipynb" and parent.config.option.codeblocks:
        return Notebook.from_parent(parent, path=file_path)
    return None


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("code blocks")
    group.addoption("--stamp", metavar="LEDGER", help="record what ran on this machine's GPU")
    group.addoption("--update-outputs", action="store_true", help="write the outputs to the pages")


def pytest_configure(config: pytest.Config) -> None:
    options = config.option
    if not (options.stamp or options.update_outputs) or hasattr(config, "workerinput"):
        return  # nothing to write, or a worker of xdist, whose controller writes
    if not options.codeblocks:
        raise pytest.UsageError("--stamp and --update-outputs need --codeblocks")
    if options.stamp and not cuda_available():
        raise pytest.UsageError("--stamp records runs on a GPU, and there is no CUDA device here")
    config.pluginmanager.register(Scribe(options.stamp, options.update_outputs))


def pytest_unconfigure() -> None:
    if server.cache_info().currsize:
        server().close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("gpu") and not cuda_available():
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log):
    """Under `-n`, send all copies of a block to one worker, where `execute` remembers the run.

    The tests of the built site go to one worker too, which builds it once, and so do those of the zip.

    xdist_group marks would say the same, but xdist 3.8 loses them under pytest 9.
    """
    if config.getvalue("dist") != "load":
        return None  # another distribution was asked for, under which some blocks may run twice
    from xdist.scheduler import LoadScopeScheduling

    class ByBlock(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.endswith(".ipynb::cells"):
                cells = code_cells((ROOT / nodeid.removesuffix("::cells")).read_text("utf-8"))
                return "\n".join(map(source, cells))
            page, _, line = nodeid.partition(".md::line ")
            fence = fences(ROOT / f"{page}.md").get(int(line)) if line else None
            if fence:
                return f"{fence.info}\n{fence.body}"
            file = nodeid.partition("::")[0]
            built = "tests/test_site_build.py", "tests/browser/test_offline.py"
            return file if file in built else nodeid

    return ByBlock(config, log)


@functools.cache
def cuda_available() -> bool:
    import torch  # here: most runs need no torch in this process

    return torch.cuda.is_available()


@functools.cache
def execute(info: str, body: str, recording: bool) -> Run:
    """Run a block in a child process, from the root of the repository."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        records = home / "records"
        records.mkdir()
        # A file, so that tracebacks and inspect.getsource have a text to show.
        script = home / "block.py"
        script.write_text(body, "utf-8")
        words = [str(script)] if info == "python" else script_and_arguments(body)
        bash = ["bash", "-euo", "pipefail", "-c", body]
        env = environment(home, records if recording else None)
        before = named(body) if recording else {}
        # stdout and stderr are files: nothing left in the background can hold up the session.
        with (home / "stdout").open("wb") as stdout, (home / "stderr").open("wb") as stderr:
            started = time.monotonic()
            process: subprocess.Popen | preloaded.Script
            # A fork cannot use a GPU that its parent may have asked for.
            if words and imports_slowly(words[0]) and not cuda_available():
                process = server().start(words, env, stdout, stderr)
            else:
                process = subprocess.Popen(
                    [sys.executable, str(script)] if info == "python" else bash,
                    cwd=ROOT,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                    start_new_session=True,
                )
            try:
                code = process.wait(TIMEOUT)
                problem = f"exited with {code}" if code else ""
            except subprocess.TimeoutExpired:
                problem = f"was still running after {TIMEOUT} s"
            finally:  # it leads a group of its own, with whatever it left in the background
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        seconds = round(time.monotonic() - started, 1)
        output, errors = ((home / name).read_text("utf-8", errors="replace") for name in ("stdout", "stderr"))
        run = Run(output, errors, problem, seconds)
        return recorded(run, info, body, before, records) if recording and not problem else run


@functools.cache
def server() -> preloaded.Server:
    """Of this worker. What an interpreter reads at its start is the same for all blocks."""
    with tempfile.TemporaryDirectory() as folder:
        return preloaded.Server(environment(Path(folder), None))


def script_and_arguments(body: str) -> list[str] | None:
    """What follows `python` in a block that is one plain call of a script, else None."""
    match = re.fullmatch(r"python ([\w./-]+\.py(?: [\w./-]+)*)\n*", body)
    return match[1].split() if match else None


def imports_slowly(script: str) -> bool:
    path = ROOT / script
    return path.exists() and bool(re.search("torch|tilelang|camp_softmax", path.read_text("utf-8")))


@functools.cache
def execute_cells(sources: tuple[str, ...]) -> tuple[list[list[dict]], str]:
    """The outputs of the cells in a fresh kernel, started elsewhere, and what went wrong, if anything did."""
    from nbclient import NotebookClient  # here: not every machine has it
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
    from nbformat.v4 import new_code_cell, new_notebook

    notebook = new_notebook(cells=[new_code_cell(text) for text in sources])
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            kernel_name="python3",
            timeout=TIMEOUT,
            startup_timeout=TIMEOUT,
            coalesce_streams=True,
            resources={"metadata": {"path": folder}},
            extra_arguments=["--InteractiveShell.colors=nocolor", "--log-level=ERROR"],
        )
        try:
            client.execute(env=environment(Path(folder), None) | {"IPYTHONDIR": folder})
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            return [], str(error).strip()
    return [cell["outputs"] for cell in notebook["cells"]], ""


def environment(home: Path, records: Path | None) -> dict[str, str]:
    """The same on every machine: this interpreter is `python`, nothing is coloured or random."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env.pop("FORCE_COLOR", None)
    # A script and not a link: through a link, an interpreter does not find its environment.
    python = home / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    path = [str(python.parent), str(Path(sys.executable).parent), env.get("PATH", os.defpath)]
    imports = [str(ROOT), *filter(None, [env.get("PYTHONPATH")])]
    if records:
        imports.insert(0, str(RECORDER))
        env["CAMP_SOFTMAX_RECORD"] = str(records)
    return env | {
        "PATH": os.pathsep.join(path),
        "PYTHONPATH": os.pathsep.join(imports),
        "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
        # Errors in what the reader sees; torch and tilelang answer for their own.
        "PYTHONWARNINGS": "error:::__main__",
        "LC_ALL": "C.UTF-8",
        "COLUMNS": "80",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "PY_COLORS": "0",
    }


def named(body: str) -> dict[str, str | None]:
    """The files of the repository that a block names, with their digests."""
    paths = ((ROOT / word).resolve() for word in re.findall(r"[\w./-]+", body))
    found = {path for path in paths if path.is_file() and path.is_relative_to(ROOT)}
    return {path.relative_to(ROOT).as_posix(): sha256(path) for path in found}


def recorded(run: Run, info: str, body: str, before: dict[str, str | None], records: Path) -> Run:
    """The run with what its Python processes recorded, unless that cannot be trusted."""
    texts = [path.read_text("utf-8") for path in sorted(records.iterdir())]
    python = bool(texts) or info == "python" or bool(re.search(r"\bpython\b", body))
    if not all(texts) or (python and not texts):
        return replace(run, problem="a Python process of this block ended without its record")
    told = [json.loads(text) for text in texts]
    read = sorted({*before.items(), *(item for record in told for item in record["files"].items())}, key=str)
    if changed := changed_since(read, ROOT):
        return replace(run, problem=f"{', '.join(changed)} changed while this block ran")
    if python and not read and info != "python":  # the ledger has a bare fence's whole text
        return replace(run, problem="this block runs no file of the repository; there is nothing to record")
    return replace(
        run,
        files=dict(read),
        kernels=list(dict.fromkeys(name for record in told for name in record["kernels"])),
    )


class Scribe:
    """Collects the runs, from xdist workers too, and writes them down at the end."""

    def __init__(self, ledger: str | None, update: bool) -> None:
        self.ledger, self.update = ledger, update
        self.runs: dict[str, dict] = {}
        self.passed: Counter[str] = Counter()
        self.notebooks: dict[Path, list[list[dict]]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        properties: dict[str, Any] = dict(report.user_properties)
        if report.when != "call" or not report.passed:
            return
        if "run" in properties:
            self.runs[properties["block"]] = properties["run"]
            self.passed[properties["block"]] += 1
        if "notebook" in properties:
            path, outputs = properties["notebook"]
            self.notebooks[Path(path)] = outputs

    def pytest_sessionfinish(self) -> None:
        if self.update:
            for page in pages(ROOT):
                self.rewrite(page)
            for path, outputs in self.notebooks.items():
                path.write_text(dump(path.read_text("utf-8"), outputs), "utf-8")
        if self.ledger:
            self.record(Path(self.ledger))

    def rewrite(self, page: Path) -> None:
        """Put the outputs on a page, from the bottom up so that line numbers hold."""
        text = page.read_bytes().decode("utf-8")  # as bytes: a page keeps its CRLF
        lines = text.split("\n")
        for fence in reversed(parse(text.replace("\r\n", "\n"))):
            run, expected = self.runs.get(fence.body), fence.expected
            if run and expected:
                ending = "\r" if lines[fence.line - 1].endswith("\r") else ""
                output = lines_of(run["output"]) if run["output"] else []
                indented = [(expected.indent + line if line else "") + ending for line in output]
                lines[expected.line : expected.end - 1] = indented
        if lines != text.split("\n"):
            page.write_bytes("\n".join(lines).encode("utf-8"))

    def record(self, path: Path) -> None:
        """Renew the record of each block that passed on every page; drop those no page shows."""
        ledger, where = Ledger.load(path, ROOT), stamp()
        fences = [fence for page in pages(ROOT) for fence in parse(page.read_text("utf-8"))]
        shown = Counter(fence.body for fence in fences if fence.runs)
        for body, run in self.runs.items():
            if self.passed[body] == shown[body]:
                kept = ("files", "output", "seconds", "kernels")
                ledger.blocks[body] = {**{name: run[name] for name in kept}, "stamp": where}
        for body in ledger.blocks.keys() - shown.keys():
            del ledger.blocks[body]
        ledger.save(path)


def stamp() -> dict[str, str | None]:
    """The machine, the software and the day."""
    from camp_softmax.stamp import stamp  # here: it imports torch

    return stamp()
