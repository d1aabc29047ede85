"""Holds the checker of the CPU against compute-sanitizer: kernels with a seeded bug, and correct ones.

    PYTHONPATH=tests python -m agreement [--record PATH] [--only NAME] [--jobs N]

agreement.toml says which kernels. The checker's verdict needs no GPU, and without --record there is no other.
With it, nvcc makes a program of each kernel, which launches it once, and each tool of compute-sanitizer runs
that program; what it says is recorded in its own words. A tool that does not get to its summary has failed:
that is recorded too, and the exit code is 1.
"""

import argparse
import ctypes
import dataclasses
import hashlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from camp_softmax import reference
from camp_softmax.bench.report import dump
from camp_softmax.cuda import host, plan
from camp_softmax.cuda.check import FORMS
from camp_softmax.stamp import stamp
from cases import compare, expected_gradient, random

ROOT = Path(__file__).parents[1]
ENTRIES = Path(__file__).with_suffix(".toml")
PROGRAM = Path(__file__).with_suffix(".cu")
SCHEDULES = 4  # orders of the threads that the checker tries
SECONDS = 60  # for a run; the program itself, agreement.cu, gives up before
LINES = 12  # of a report that are kept
FAILED = "FAILED"  # how the last one begins of a tool that did not get to its summary
# What the tools get besides --tool. All the rest are their defaults: racecheck reports warnings and errors.
TOOLS = {"memcheck": (), "racecheck": (), "initcheck": ("--initcheck-address-space", "all"), "synccheck": ()}
NVCC = ("-std=c++17", "-lineinfo")
SUMMARY = re.compile(r"(ERROR|RACECHECK) SUMMARY: (\d+) (errors?|hazards?)")


class Launch(NamedTuple):
    """A kernel and one launch of it, on the CPU or, by way of a program, on a GPU."""

    source: Path
    kernel: host.Kernel
    constants: plan.Constants
    grid: int
    threads: int
    arguments: tuple[host.Memory | int, ...]
    options: dict[str, int]  # cluster and shared, as `host.Kernel` takes them
    y: Tensor  # the result, without the room behind it
    right: tuple[Tensor, Tensor] | None  # what it should be, and how far off it may be
    alive: tuple[Tensor, ...]  # what the arguments point to


def entries() -> list[dict[str, Any]]:
    """All of agreement.toml, each entry with what it takes from another one, correct kernels last."""
    read = tomllib.loads(ENTRIES.read_text("utf-8"))
    found = {e["name"]: e | {"correct": kind == "correct"} for kind in read for e in read[kind]}

    def whole(entry: dict[str, Any]) -> dict[str, Any]:
        base = whole(found[entry["of"]]) if "of" in entry else {}
        return {**base, "edits": []} | {key: value for key, value in entry.items() if key != "of"}

    return [whole(entry) for entry in found.values()]


def sources(path: Path) -> list[Path]:
    """The file, and what it includes."""
    included = re.findall(r'^#include "(.+)"$', path.read_text("utf-8"), re.M)
    return [path, *(each for name in included for each in sources(host.CUDA / name))]


def source(entry: dict[str, Any]) -> Path:
    """The file of its kernel."""
    return ROOT / entry.get("source", f"camp_softmax/cuda/{entry.get('rung')}.cuh")


def digests(judged: list[dict[str, Any]]) -> dict[str, str]:
    """Of all that decides what becomes of these entries."""
    files = sorted({ENTRIES, PROGRAM}.union(*(sources(source(entry)) for entry in judged)))
    return {str(path.relative_to(ROOT)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def seed(entry: dict[str, Any], folder: Path) -> Path:
    """The source in that folder, edited, with what it includes."""
    texts = {path.name: path.read_text("utf-8") for path in sources(source(entry))}
    for was, now in entry["edits"]:
        place = next((name for name, text in texts.items() if was in text), None)
        if place is None:
            raise ValueError(f"{entry['name']}: {was!r} is not in {', '.join(texts)}")
        texts[place] = texts[place].replace(was, now)
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")
    return folder / source(entry).name


def launch(entry: dict[str, Any], folder: Path) -> Launch:
    """The entry's launch; its source goes into the folder."""
    path, (rows, cols), operator = seed(entry, folder), entry["shape"], entry.get("operator")
    x = random(rows, cols).to(getattr(torch, entry.get("dtype", "float32")))
    right = reference.expected(operator, x) if operator else None
    place = torch.zeros if entry.get("zeroed") else torch.empty
    size = rows if operator == "logsumexp" else rows * cols
    memory = place(size + entry.get("room", 0), dtype=x.dtype)
    y = memory[:size].view(x.shape[:1] if operator == "logsumexp" else x.shape)
    if "rung" in entry:
        return _as_shipped(entry, path, x, y, right)
    kernel = host.Kernel(path, entry["kernel"])
    call = next(call for letters, (_, call) in FORMS.items() if re.fullmatch(letters, kernel.letters))
    grid, threads = entry.get("grid", rows), entry.get("threads", plan.BLOCK)
    options = {"shared": entry.get("shared", 0)}
    return Launch(path, kernel, (), grid, threads, call(x, memory), options, y, right, (x, memory))


def _as_shipped(entry: dict[str, Any], path: Path, x: Tensor, y: Tensor, right: Any) -> Launch:
    """By the package's own launcher, which is made to tell."""
    rung, operator, (rows, cols) = entry["rung"], entry["operator"], x.shape
    make = plan.backward if rung == "backward" else plan.READ_ONCE[rung]
    made = make(cols, x.dtype, operator.upper(), not cols * x.itemsize % plan.VECTOR)
    launcher = host.Launcher(dataclasses.replace(made, in_flight=2), folder=path.parent)
    kernel, told = launcher.kernel, []
    launcher.kernel = lambda *arguments, **options: told.append((arguments, options))
    inputs, last = x, cols
    if rung == "backward":
        forward = getattr(torch, operator)(x.double(), -1).to(x.dtype)
        x, inputs, last = forward, random(rows, cols).cos().to(x.dtype), forward.data_ptr()
        right = expected_gradient(operator, random(rows, cols).to(x.dtype), inputs, -1)
    launcher(inputs.data_ptr(), y.data_ptr(), rows, cols, last)
    [((grid, threads, *arguments), options)] = told
    del options["seed"]
    counter = torch.zeros(1, dtype=torch.int32)  # of the cluster kernel: the launcher's own is gone
    if rung == "cluster":
        arguments[-1] = host.Memory.of(counter)
    alive = (x, inputs, y, counter)
    return Launch(path, kernel, made.constants, grid, threads, tuple(arguments), options, y, right, alive)


def checked(launch: Launch) -> str:
    """What the checker finds first in some order of the threads, or nothing."""
    for order in range(SCHEDULES):
        before = launch.y.clone()
        try:
            launch.kernel(
                launch.grid, launch.threads, *launch.arguments, **launch.options, seed=order, seconds=20
            )
        except host.Finding as finding:
            return str(finding).replace(f"{launch.source.parent}/", "")
        finally:
            launch.y.copy_(before)
    return ""


# --- on the GPU -----------------------------------------------------------------------------------


def build(launch: Launch, unset: bool, arch: str) -> Path:
    """A program of agreement.cu that launches the kernel.

    Args:
        unset: y holds nothing before.
    """
    folder, arguments, y = launch.source.parent, [], -1
    for at, argument in enumerate(launch.arguments):
        if isinstance(argument, host.Memory):
            (folder / f"{at}.bin").write_bytes(ctypes.string_at(argument.address, argument.bytes))
            y = at if argument.address == launch.y.data_ptr() else y
            arguments.append(f"memory({at})")
        else:
            arguments.append(f"{argument}LL")
    options = {"cluster": 1, "shared": 0} | launch.options
    macros = {
        **{"KERNEL": launch.kernel.name, "ARGUMENTS": ", ".join(arguments)},
        **{"GRID_SIZE": launch.grid, "BLOCK_SIZE": launch.threads},
        **{"CLUSTER_SIZE": options["cluster"], "SHARED_BYTES": options["shared"]},
        **{"Y": y, "Y_BYTES": launch.y.numel() * launch.y.itemsize, "Y_UNSET": int(unset)},
    }
    lines = [
        f'#include "{launch.source.name}"',
        *(f"#define {name} {value}" for name, value in macros.items()),
    ]
    (folder / "launch.h").write_text("\n".join([*lines, ""]), "utf-8")
    constants = [f"-D{name}={value}" for name, value in (("BLOCK", plan.BLOCK), *launch.constants)]
    command = ["nvcc", *NVCC, f"-arch={arch}", f"-I{folder}", *constants, "-o", folder / "main", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{launch.source}: nvcc: {done.stdout}{done.stderr}")
    return folder / "main"


def run(command: list[str | Path], folder: Path | None = None) -> tuple[int | None, str]:
    """From that folder: the exit code, None if it was stopped for its time, and all that it said."""
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            command, cwd=folder, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        said.seek(0)
        code = process.returncode
        return None if code == -signal.SIGKILL else code, said.read()


def numbers(launch: Launch, main: Path) -> str:
    """What becomes of the result without a tool: "right", "wrong", "unknown", or CUDA's error."""
    path = launch.source.parent / "y.bin"
    code, said = run([main, path], main.parent)
    if code:
        return said.strip() or f"exit code {code}"
    if code is None:
        return f"no end within {SECONDS} s"
    if launch.right is None:
        return "unknown"
    y = torch.frombuffer(bytearray(path.read_bytes()), dtype=launch.y.dtype).view(launch.y.shape)
    try:
        compare(y, *launch.right)
    except AssertionError:
        return "wrong"
    return "right"


def report(command: list[str | Path], folder: Path | None = None) -> list[str]:
    """What a tool says, in its own words: the first lines, and its summary, which the last one is."""
    code, said = run(command, folder)
    lines = [line.removeprefix("=========").rstrip() for line in said.splitlines() if line.startswith("===")]
    lines = [line.removeprefix(" ") for line in lines if line.strip() and "COMPUTE-SANITIZER" not in line]
    summary = next((line for line in lines if SUMMARY.match(line)), None)
    if summary is None:
        why = f"no end within {SECONDS} s" if code is None else f"no summary, exit code {code}"
        return [*said.splitlines()[:LINES], f"{FAILED}: {why}"]
    return [*lines[: lines.index(summary)][:LINES], summary]


def tools() -> tuple[str, dict[str, list[str]]]:
    """The version of compute-sanitizer, and the options of each tool, where this version has them."""
    version, known = (run(["compute-sanitizer", option])[1] for option in ("--version", "--help"))
    options = {tool: [*own] if set(own[:1]) <= set(known.split()) else [] for tool, own in TOOLS.items()}
    return version.strip().splitlines()[-1], options


def judge(
    launches: dict[str, tuple[Launch, bool]], options: dict[str, list[str]], jobs: int
) -> dict[str, Any]:
    """By name: the numbers, and each tool's report.

    Args:
        launches: by name, each with whether y holds nothing before.
        jobs: programs at a time.
    """
    major, minor = torch.cuda.get_device_capability()
    with ThreadPoolExecutor(jobs) as pool:
        built = pool.map(lambda of: build(*of, f"sm_{major}{minor}"), launches.values())
        mains = dict(zip(launches, built, strict=True))
        verdicts = pool.map(lambda name: numbers(launches[name][0], mains[name]), launches)
        found: dict[str, Any] = {
            name: {"numbers": verdict} for name, verdict in zip(mains, verdicts, strict=True)
        }
        pairs = [(name, tool) for tool in options for name in mains]

        def one(at: int) -> list[str]:
            name, tool = pairs[at]
            # By default all look for their program on the same ten ports.
            shared = ["--show-backtrace", "device", "--print-limit", "10", "--port", str(49152 + 16 * at)]
            return report(
                ["compute-sanitizer", "--tool", tool, *options[tool], *shared, mains[name]],
                mains[name].parent,
            )

        for (name, tool), said in zip(pairs, pool.map(one, range(len(pairs))), strict=True):
            found[name][tool] = said
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m agreement", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--record", type=Path, metavar="PATH", help="run the tools too, and write this file")
    parser.add_argument("--only", metavar="NAME", help="one kernel")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="programs at a time; default: cores")
    chosen = parser.parse_args(arguments)
    judged = [entry for entry in entries() if chosen.only in (None, entry["name"])]
    if chosen.record:  # before anything takes long
        os.environ["PATH"] += f"{os.pathsep}/usr/local/cuda/bin"
        version, options = tools()
        compiler = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder).resolve()
        launches: dict[str, tuple[Launch, bool]] = {}
        lines = []
        for number, entry in enumerate(judged):
            (own := scratch / str(number)).mkdir()
            made = launch(entry, own)
            launches[entry["name"]] = made, not entry.get("zeroed")
            lines.append({"name": entry["name"], "checker": checked(made)})
            print(f"{entry['name']}: {lines[-1]['checker'] or 'nothing found'}")
        if not chosen.record:
            return 0
        found = judge(launches, options, chosen.jobs)
    record = {
        **{"schema": 1, "kind": "agreement", "stamp": stamp(), "files": digests(judged)},
        "tools": {"compute-sanitizer": version, "nvcc": compiler.splitlines()[-2].strip(), **options},
        "kernels": [line | found[line["name"]] for line in lines],
    }
    chosen.record.write_text(dump(record), "utf-8")
    ends = [(f"{k['name']}: {tool}", k[tool][-1]) for k in record["kernels"] for tool in TOOLS]
    failed = [f"{where}: {end}" for where, end in ends if end.startswith(FAILED)]
    print(*failed, sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
