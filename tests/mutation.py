"""Changes the package in one place after the other, and looks whether a test sees it.

    python -m tests.mutation [--only FILE[:LINE]] [--jobs 2] [--verbose]

`sites` says what is changed, wherever it can be: no mutant is picked by hand. Each is written into a copy of
the tree, where the tests of its file run until one fails. One that no test sees is a survivor, and has to
stand in equivalent.toml with the reason why nobody could see it.

mutmut and cosmic-ray change Python alone, and universalmutator starts an interpreter for each mutant, which
takes longer here than most of the tests.
"""

import argparse
import importlib
import io
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tokenize
import tomllib
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
CACHE = ROOT / ".cache" / "mutants"  # compiled kernels: those of the package are compiled once

MEMORY = 8 << 30  # bytes of addresses: a guard that is gone may ask for more than a machine has
PRELOADED = ("torch", "tilelang", "hypothesis", "torch.testing._internal.common_methods_invocations")
ASKED = "api and not (import or without or main or unwritable)"  # what starts an interpreter takes long
ROWS = (
    "not tilelang and not online and not three_pass and not cluster and (test_values or other_rows "
    "or bit_values and (random or spike) or tutorial and not 256 and not 513 and not 4096) "
    "or underflow and cluster and float32 or no_warnings and single "
    "or any_schedule and (single or packed) or random and cluster and float16 or apart and single "
    "or asks_for_nothing or one_instruction"
)
PACKED = (
    "(packed and not beyond or 7 and tutorial or other_rows and part "
    "or bit_values and (random or inf or underflow)) and not tilelang"
)
# Each file: the modules of tests, and which of these tests, the quickest to fail first. What takes long, or
# compiles many kernels, is left out where the rest sees the same.
TARGETS = {
    "camp_softmax/cuda/reduce.cuh": ("cuda cuda_host", "not 100003 and three_pass and (lengths or schedule)"),
    "camp_softmax/cuda/three_pass.cuh": (
        "cuda cuda_host",
        "not 100003 and three_pass and (test_values or lengths or schedule)",
    ),
    "camp_softmax/cuda/online.cuh": (
        "cuda cuda_host",
        "not 100003 and online and (test_values or lengths or schedule)",
    ),
    "camp_softmax/cuda/row.cuh": ("softmax cuda cuda_host", ROWS),
    "camp_softmax/cuda/single_read.cuh": ("softmax cuda cuda_host", ROWS),
    "camp_softmax/cuda/packed.cuh": ("cuda cuda_host softmax", PACKED),
    "camp_softmax/cuda/cluster.cuh": (
        "cuda cuda_host",
        "test_values and cluster and (random or float32 and (inf or underflow)) "
        "or (any_schedule or no_warnings or pieces) and cluster",
    ),
    "camp_softmax/cuda/backward.cuh": (
        "operator cuda_host",
        "cuda and (test_gradients or nan) or cuda_kernel and (3- or 100-) or gradient_under "
        "or no_warnings and backward",
    ),
    "camp_softmax/cuda/plan.py": ("cuda operator", "plan and not compile or too_long or hardly"),
    "camp_softmax/tilelang/rows.py": (
        "softmax tilelang",
        "not cuda and (test_values or bit_values and random) or rows_are_dynamic or bad_rows",
    ),
    "camp_softmax/tilelang/online.py": (
        "softmax tilelang",
        "not cuda and test_values and not single_read and not cluster or bad_blocks or bad_rows or smallest "
        "or generated and (vectors_where and float32 or first)",
    ),
    "camp_softmax/kernels.py": (
        "softmax api operator cuda_host start",
        f"{ASKED} or test_values and (random or one) or any_dim or empty or views or negative or contiguous "
        "or operator and (nothing or same_bits or missing or who or compiler or runtime or as_many) "
        "or no_cuda_core or without_tilelang or without_a_compiler",
    ),
    "camp_softmax/api.py": (
        "api operator softmax",
        f"{ASKED} or negative or dual or scalar or dtype or several or autocast or lazy or grad_mode "
        "or traced or subclasses or plain_call or refuses or compiled and eager-softmax or test_vmap "
        "or samples and logsumexp",
    ),
    "camp_softmax/operators.py": (
        "operator",
        "not tilelang and (scalar or gradients and float32 or nan or views or nothing or second or autocast "
        "or grad_mode or derivatives or dual or vmap or traced or subclasses or compiled and aot "
        "or gradcheck)",
    ),
    "camp_softmax/reference.py": ("reference", ""),
    "camp_softmax/tilelang/single_read.py": (
        "tilelang",
        "single_read and not cuda and not 65536 and not 65535 or too_long or take_turns or bad_rows "
        "or read_once and single and 65536 and bfloat16",
    ),
    "camp_softmax/tilelang/backward.py": (
        "operator tilelang",
        "tilelang and (test_gradients or nan) or tilelang_kernel or of_the_gradient",
    ),
    "camp_softmax/tilelang/attention.py": ("attention", ""),
    "camp_softmax/tilelang/cluster.py": ("tilelang", "cluster or too_long"),
}

# The kernels that are wrong by name, and what rejects them.
NAMED = [f"tests/test_{name}.py" for name in ("mistakes", "attention", "cuda_host")]
REJECTS = "is_rejected or mistake_is_seen or of_the_mistakes or left_out"

# --- operators ------------------------------------------------------------------------------------

SWAPS = {
    **{"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="},
    **{"+": "-", "-": "+", "*": "/", "/": "*", "//": "*", "%": "*", "<<": ">>", ">>": "<<"},
    **{"+=": "-=", "-=": "+=", "*=": "/=", "/=": "*="},
    **{"and": "or", "or": "and", "&&": "||", "||": "&&"},
}
NAMES = {
    **{"max": "min", "min": "max", "fmaxf": "fminf", "fminf": "fmaxf", "maximum": "minimum", "amax": "amin"},
    **{"reduce_max": "reduce_min", "min_value": "max_value", "max_value": "min_value"},
}
INITIAL = r"-T\.infinity\([^)]*\)|minus_infinity\(\)(?! \{)|(?<!float )\b(?:LOWEST|HIGHEST|NOTHING)\b(?! =)"


class Mutant(NamedTuple):
    """`was`, the line where the change begins, and `now`, what stands in its place."""

    file: str
    line: int
    function: str
    was: str
    now: str
    text: str


def code(text: str, python: bool) -> str:
    """The text with a \\0 for every character that is not to be changed: of comments, strings, messages of
    errors, decorators and signatures.
    """

    def blank(part: str) -> str:
        return re.sub(r"[^\n]", "\0", part)

    if not python:
        apart = r'//.*|"(?:\\.|[^"\\])*"|^ *#.*|^ *static_assert.*|^(?:__device__|extern) .*\)? \{$'
        return re.sub(apart, lambda found: blank(found[0]), text, flags=re.M)
    lines = text.splitlines(keepends=True)
    starts = [sum(map(len, lines[:n])) for n in range(len(lines) + 1)]
    kept = text
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.STRING, tokenize.COMMENT):
            (row, column), (last, end) = token.start, token.end
            begin, end = starts[row - 1] + column, starts[last - 1] + end
            kept = kept[:begin] + blank(kept[begin:end]) + kept[end:]
    apart = (
        r"^ *(?:@|from |import |class ).*$|^ *def .*(?:\(\n(?: {4,}.*\n)+ *\).*)?$"
        r"|^ *raise .*(?:\($(?:.|\n)*?^ *\))?"
    )
    return re.sub(apart, lambda found: blank(found[0]), kept, flags=re.M)


def sites(text: str, python: bool) -> Iterator[tuple[int, int, str]]:
    """Where a mutant differs: the begin, the end, and what it has there."""
    kept = code(text, python)
    # An operator stands between spaces, the star of a pointer or the bracket of a template does not.
    for found in re.finditer(rf"(?<=\s)(?:{'|'.join(map(re.escape, SWAPS))})(?=\s)", kept):
        yield *found.span(), SWAPS[found[0]]
    for found in re.finditer(rf"(?<!u32 )(?<!float )\b(?:{'|'.join(NAMES)})(?=\()", kept):
        yield *found.span(), NAMES[found[0]]
    for found in re.finditer(r"(?<![\w.])0(?![\w.])", kept):
        yield *found.span(), "1"
    for found in re.finditer(r"(?<![\w.])\d+\.\d+(?:e\d+)?f?", kept):
        yield *found.span(), f"{found[0]} * 2"
    for found in re.finditer(INITIAL, kept):
        yield *found.span(), "0"
        if found[0].startswith("-"):
            yield found.start(), found.start() + 1, ""
    yield from _guards_of_python(kept) if python else _guards_of_cuda(kept)
    ending, nothing = (r"[\0 ]*$", "pass") if python else (";", "")
    for found in re.finditer(
        r"(?<![^\s{}])(?<=[\n ])(?!if\b|for\b|while\b|return\b|print\b)[\w.]+(?=\()", kept
    ):
        before, end = kept[: found.start()].rstrip(" "), _closed(kept, found.end()) + 1
        if before[-1:] in "\n;{}" and re.compile(ending, re.M).match(kept, end):
            yield found.start(), end, nothing


def _guards_of_python(kept: str) -> Iterator[tuple[int, int, str]]:
    """A block that is left at once is never entered, any other always."""
    for found in re.finditer(r"\b(?:if|elif|while) ", kept):
        end = _closed(kept, found.end(), r"[:,)\]}]|\s+else ")
        leaves = re.compile(r":[^\n]*\n(?:\0| +(?:return|break|continue)\b)").match(kept, end)
        yield found.end(), end, str(not leaves)


def _guards_of_cuda(kept: str) -> Iterator[tuple[int, int, str]]:
    for found in re.finditer(r"\b(?:if|while) \(", kept):
        end = _closed(kept, found.end() - 1)
        leaves = re.compile(r"\) \{?\s*(?:return|break|continue)\b").match(kept, end)
        yield found.end(), end, "false" if leaves else "true"
    for found in re.finditer(r" \? ", kept):  # its condition, back to where that begins
        begin = end = found.start()
        while begin and (
            kept[begin - 1] not in "(,?;{[" or kept.count(")", begin, end) > kept.count("(", begin, end)
        ):
            begin -= 1
        starts = [*re.finditer(r"^\s*|(?<![:=<>!])[:=] |\breturn ", kept[begin:end])]
        yield begin + starts[-1].end(), end, "true"


def _closed(kept: str, place: int, ending: str = "") -> int:
    """The bracket that closes the one at the place; or where the ending stands outside of all brackets."""
    depth = 0
    while True:
        if ending and not depth and re.compile(ending).match(kept, place):
            return place
        depth += (kept[place] in "([{") - (kept[place] in ")]}")
        if not ending and not depth:
            return place
        place += 1


def mutants(file: str) -> list[Mutant]:
    text = (ROOT / file).read_text("utf-8")
    lines, made = text.splitlines(), []
    for begin, end, by in sorted(sites(text, file.endswith(".py"))):
        changed = text[:begin] + by + text[end:]
        line = text[:begin].count("\n")
        above = [found[1] for found in FUNCTION.finditer(text[:begin])]
        made.append(
            Mutant(
                file,
                line + 1,
                above[-1] if above else "",
                lines[line].strip(),
                changed.splitlines()[line].strip(),
                changed,
            )
        )
    return made


FUNCTION = re.compile(
    r"^(?: *def|class|struct|(?:.*\b)?__device__ .*?|extern .*\n? +) *\b(\w+)(?=[(:<]| \{)", re.M
)


# --- trials ---------------------------------------------------------------------------------------


class Result(NamedTuple):
    """What became of a mutant: `how` is "killed", "compiler", "time" or "survived"; `by`: the test."""

    how: str
    by: str = ""
    seconds: float = 0


class Trials:
    """A pytest plugin that forks for each mutant: where everything is collected for a kernel in CUDA C++,
    which a test compiles, or before anything is, for a module. The forks go on, and tell what failed.
    """

    def __init__(self, file: str, made: list[Mutant], told: IO[str]) -> None:
        self.file, self.made, self.told = Path(file), made, told
        self.result = Result("survived")
        self.killers: list[str] = []  # the last one first: often it kills the next one too

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        if self.file.suffix == ".py":
            self.fork()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        if self.file.suffix != ".py":
            self.fork()
        order = {name: place for place, name in enumerate(self.killers)}
        session.items.sort(key=lambda item: order.get(item.nodeid, len(order)))

    def fork(self) -> None:
        """Returns in each fork, and ends the process when all have ended."""
        original = self.file.read_text("utf-8")
        limit = 1000
        for number, text in enumerate([original, *(mutant.text for mutant in self.made)]):
            self.file.write_text(text, "utf-8")
            os.utime(self.file, (number, number))  # no .pyc of another mutant is as old
            read, write = os.pipe()
            pid = os.fork()
            if not pid:
                os.close(read)
                self.pipe = write
                sys.dont_write_bytecode = number > 0
                resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
                signal.alarm(20 * limit)
                self.began = time.process_time()
                return
            os.close(write)
            with os.fdopen(read) as pipe:
                told = pipe.read()
            _, status = os.waitpid(pid, 0)
            code = os.waitstatus_to_exitcode(status)
            if told:
                result = Result(*json.loads(told))
            elif code in (-signal.SIGXCPU, -signal.SIGALRM):
                result = Result("time", "", limit)
            else:
                result = Result("killed", f"exit {code}")
            if result.by in self.killers:
                self.killers.remove(result.by)
            self.killers.insert(0, result.by)
            if not number:
                if result.how != "survived":
                    print(f"{self.file}: without a change {result.by} fails", flush=True)
                    os._exit(1)
                limit = 10 + 3 * int(result.seconds)  # also where other work slows the processor down
            print(json.dumps(result), file=self.told, flush=True)
        self.file.write_text(original, "utf-8")
        os._exit(0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            compiler = re.search("does not compile|cannot compile it", report.longreprtext)
            self.result = Result("compiler" if compiler else "killed", report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.result = Result("killed", report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        result = self.result._replace(seconds=time.process_time() - self.began)
        os.write(self.pipe, json.dumps(result).encode())
        os._exit(0)


def run(file: str, made: list[Mutant], tree: Path, told: Path) -> None:
    """In a fork of its own, which ends here."""
    try:
        os.chdir(tree)
        output = os.open(tree.with_suffix(".txt"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.environ |= {"TILELANG_CACHE_DIR": str(CACHE), "XDG_CACHE_HOME": str(CACHE)}
        modules, which = TARGETS[file]
        tests = [file] if ">>> " in Path(file).read_text("utf-8") else []
        tests += [f"tests/test_{name}.py" for name in modules.split()]
        options = ["-x", "-q", "-s", "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist"]
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of what is imported already
        with told.open("w") as stream:
            pytest.main([*options, *tests, "-k", which], plugins=[Trials(file, made, stream)])
    finally:
        traceback.print_exc()
        os._exit(1)


def tried(file: str, made: list[Mutant], trees: list[Path]) -> list[Result]:
    """One process for each tree; they deal the mutants out among themselves."""
    told, pids = [tree.with_suffix(".json") for tree in trees], []
    for place, tree in enumerate(trees):
        pid = os.fork()
        if not pid:
            run(file, made[place :: len(trees)], tree, told[place])
        pids.append(pid)
    for pid, tree in zip(pids, trees, strict=True):
        if os.waitpid(pid, 0)[1]:
            sys.exit(tree.with_suffix(".txt").read_text("utf-8", errors="replace"))
    results = [Result("")] * len(made)
    for place, path in enumerate(told):
        lines = path.read_text("utf-8").splitlines()[1:]  # the first is of the file as it is
        results[place :: len(trees)] = [Result(*json.loads(line)) for line in lines]
    return results


# --- the report -----------------------------------------------------------------------------------


def explained() -> list[dict]:
    """The table of mutants that no test can see."""
    return tomllib.loads((ROOT / "tests" / "equivalent.toml").read_text("utf-8"))["equivalent"]


def judged(
    results: list[tuple[Mutant, Result]], table: list[dict], whole: bool
) -> tuple[set[Mutant], list[str]]:
    """The mutants that nobody can tell from the original, and what is wrong: a survivor without a reason, or
    an entry of the table without a survivor, if the results are those of whole files.
    """
    equivalent: set[Mutant] = set()
    problems = []
    left = [mutant for mutant, result in results if result.how == "survived"]
    for entry in table:
        for now in entry.get("now", [None]):
            found = {m for m in left if m.file == entry["file"] and fits(m, entry, now)}
            equivalent |= found
            if not found and whole and any(mutant.file == entry["file"] for mutant, _ in results):
                what = now or entry["function"]
                problems.append(f"{entry['file']}: killed, or no longer there: {what}")
    problems += [f"{m.file}:{m.line}: survived: {m.now or '(left out)'}" for m in left if m not in equivalent]
    return equivalent, problems


def fits(mutant: Mutant, entry: dict, now: str | None) -> bool:
    if now is None:
        return mutant.function == entry["function"]
    return (mutant.was, mutant.now) == (entry["was"], now)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="FILE[:LINE]", action="append", default=[], help="may be repeated")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--verbose", action="store_true", help="name each mutant, and the test that killed it"
    )
    options = parser.parse_args()
    preload()
    table = explained()
    total: Counter[str] = Counter()
    problems = []
    print(f"{'':40}" + "".join(f"{column:>12}" for column in (*COLUMNS, "score")))
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        trees = [Path(folder) / f"tree{job}" for job in range(options.jobs)]
        for tree in trees:
            shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(".*", "site", "build", "__pycache__"))
        for file in TARGETS:
            made = [m for m in mutants(file) if wanted(m, options.only)]
            if made:
                results = list(zip(made, tried(file, made, trees), strict=True))
                whole = not options.only or file in options.only
                equivalent, found = judged(results, table, whole)
                count = Counter("equivalent" if m in equivalent else result.how for m, result in results)
                print(row(file, count), flush=True)
                for mutant, result in results if options.verbose else []:
                    by = result.by or "equivalent" if mutant in equivalent else result.by
                    print(f"{mutant.line}: {result.how} {by}\n  - {mutant.was}\n  + {mutant.now}", flush=True)
                total += count
                problems += found
    print(row("in all", total))
    if NAMED and not options.only:
        print("the kernels that are wrong by name:", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", *NAMED, "-k", REJECTS]
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            problems.append("a kernel that is wrong by name is not rejected")
    sys.exit("\n".join(problems) or 0)


COLUMNS = ("killed", "compiler", "time", "equivalent", "survived")


def row(name: str, count: Counter[str]) -> str:
    real = count.total() - count["equivalent"]
    score = f"{(real - count['survived']) / real:.1%}" if real else ""
    return f"{name:40}" + "".join(f"{value:>12}" for value in (*(count[c] for c in COLUMNS), score))


def wanted(mutant: Mutant, only: list[str]) -> bool:
    return not only or bool({mutant.file, f"{mutant.file}:{mutant.line}"} & set(only))


def preload() -> None:
    """What the tests import, once for all trials."""
    for module in PRELOADED:
        importlib.import_module(module)


if __name__ == "__main__":
    main()
