"""`python -m camp_softmax.bench`: the arguments, and the run they ask for."""

import argparse
import os
import random
import re
import sys
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path

import torch

from camp_softmax.bench import attention, measure, peers, report
from camp_softmax.bench.measure import Case, LostDeviceError, Outcome
from camp_softmax.limits import DTYPES
from camp_softmax.stamp import stamp

RESULTS = Path("docs/results")  # from where the program is run: the root of the repository
NAMES = {str(dtype).removeprefix("torch."): dtype for dtype in DTYPES}
POWERS = [2**k for k in range(7, 19)]
RAGGED = [1000, 1023, 4095, 4100, 32000, 50257, 100000, 128256, 151936, 250007]  # vocabularies among them
SMALL = (16, 256)  # where the call is all that costs
GIB = 2**30

DEFAULTS = {  # device: dtypes, lengths, elements, rounds
    "cuda": (list(NAMES), POWERS + RAGGED, 2**27, 30),
    "cpu": (["float32", "bfloat16"], [128, 1000, 4096, 32768], 2**18, 7),
}
EPILOG = f"""\
candidates: {", ".join(peers.LOADERS)}

examples:
  python -m camp_softmax.bench                            what this machine can do
  python -m camp_softmax.bench --record                   the same, into {RESULTS}/<device>.json
  python -m camp_softmax.bench --candidates auto torch quack --dtypes float32 --lengths 4096 --random 5
  python -m camp_softmax.bench --shapes 16x256 64x4096 --graph
  python -m camp_softmax.bench --overhead                 calls, and first calls; takes minutes
  python -m camp_softmax.bench --variants                 what helped and what did not
  python -m camp_softmax.bench --attention                FlashAttention beside torch's

A ratio compares medians of one run. Times of two runs are not comparable.
"""


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m camp_softmax.bench",
        description="Checks and times kernels and their peers in one run, beside a copy of the same bytes.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add("--operator", choices=peers.OPERATORS, default="softmax", help="default: softmax")
    add("--candidates", nargs="+", metavar="NAME", help="default: all; the copy always takes part")
    add("--dtypes", nargs="+", choices=NAMES, metavar="DTYPE", help=f"of {', '.join(NAMES)}; default: all")
    add("--lengths", nargs="*", type=number, metavar="M", help="columns of a row; default: 128 to 262144")
    add("--random", type=number, default=0, metavar="K", help="K more lengths that nobody chose")
    add("--seed", type=int, help="which ones they are; default: others each time")
    add("--elements", type=number, metavar="E", help="of a tensor: E // M rows; default: 2^27 on a GPU")
    add(
        "--shapes",
        nargs="+",
        type=shape,
        default=[],
        metavar="NxM",
        help="instead of lengths: rows x columns",
    )
    add(
        "--rounds",
        type=number,
        metavar="R",
        help="launches of each candidate that count; default: 30 on a GPU",
    )
    add("--graph", action="store_true", help="replay CUDA graphs, for small shapes")
    add(
        "--overhead", action="store_true", help="time calls on 16 x 256 instead, on the host, and first calls"
    )
    add("--variants", action="store_true", help="time the kernels with one decision taken the other way")
    add("--attention", action="store_true", help="time FlashAttention beside torch's instead")
    add("--jobs", type=number, metavar="J", help="processes that compile; default: what CPU and memory allow")
    add("--device", choices=("cuda", "cpu"), help="default: cuda where there is one")
    add("--output", type=Path, metavar="FILE.json", help="write the record there")
    add("--record", action="store_true", help=f"write it to {RESULTS}/<device>.json, on a GPU only")
    add("--plot", type=Path, metavar="FILE.svg", help="draw it")
    return made


def number(text: str) -> int:
    """A positive integer, or a power as in 2^27.

    Example:
        >>> number("4096"), number("2^27")
        (4096, 134217728)
    """
    match = re.fullmatch(r"(\d+)(?:\^(\d\d?))?", text)
    value = int(match[1]) ** int(match[2] or 1) if match else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer or a power such as 2^27, got {text!r}")
    return value


def shape(text: str) -> tuple[int, int]:
    """Rows x columns.

    Example:
        >>> shape("16x256")
        (16, 256)
    """
    match = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"expected rows x columns such as 16x256, got {text!r}")
    return int(match[1]), int(match[2])


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """The options, each with its value for this device; exits with a message if they make no sense."""
    made = parser()
    options = made.parse_args(given)
    options.device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if options.device == "cuda" and not torch.cuda.is_available():
        made.error("--device cuda: torch sees no CUDA device")
    dtypes, lengths, elements, rounds = DEFAULTS[options.device]
    options.dtypes = options.dtypes or (["float32"] if options.overhead else dtypes)
    options.elements = options.elements or elements
    options.rounds = options.rounds or rounds
    options.seed = random.randrange(2**32) if options.seed is None else options.seed
    default: Sequence[str] = list(peers.LOADERS) if options.device == "cuda" else peers.ON_CPU
    if options.operator == "softmax_backward":
        default = peers.OF_GRADIENT
    options.candidates = list(dict.fromkeys(options.candidates or default))
    if unknown := [name for name in options.candidates if name not in peers.LOADERS]:
        made.error(f"--candidates {' '.join(unknown)}: expected some of {', '.join(peers.LOADERS)}")
    given_shapes = options.shapes or options.lengths or options.random
    baseline = "torch" if options.overhead else "copy"
    options.candidates = [baseline, *(name for name in options.candidates if name != baseline)]
    if options.rounds < 2:
        made.error("--rounds: expected 2 or more, for a median and quartiles")
    if options.lengths and (longest := max(options.lengths)) > options.elements:
        made.error(f"--lengths {longest}: a tensor has {options.elements} elements; raise --elements")
    if options.overhead and (options.graph or options.plot or given_shapes):
        made.error("--overhead times calls on 16 x 256: no --graph, --plot, --shapes, --lengths or --random")
    chosen = given_shapes or options.graph or options.plot
    if options.variants and (chosen or options.overhead or options.operator != "softmax"):
        made.error("--variants come with their own lengths and kernels: no --lengths, --candidates, …")
    if options.variants and options.device == "cpu":
        made.error("--variants: needs a CUDA device")
    if options.attention and (
        chosen or options.overhead or options.variants or options.operator != "softmax"
    ):
        made.error("--attention comes with its own shapes: no --lengths, --operator, …")
    if options.graph and options.device == "cpu":
        made.error("--graph: CUDA graphs need a CUDA device")
    if options.record and options.output:
        made.error("--record names the file itself: no --output")
    if options.record and options.device == "cpu":
        made.error(f"--record: {RESULTS} holds what ran on a GPU; name a file with --output")
    options.shapes = shapes(options, lengths if options.lengths is None else options.lengths)
    if not options.shapes:
        made.error("nothing to time: give --lengths, --shapes or --random")
    if options.device == "cuda":
        needed, free = memory(options), torch.cuda.mem_get_info()[0]
        if needed > free:
            made.error(
                f"needs {needed / GIB:.1f} GiB of GPU memory, {free / GIB:.1f} are free; lower --elements"
            )
    return options


def shapes(options: argparse.Namespace, lengths: Sequence[int]) -> list[tuple[int, int]]:
    """(N, M) of every case, short rows first: the shapes asked for, or a tensor for each length."""
    if options.overhead:
        return [SMALL]
    chosen = [] if options.shapes and options.lengths is None else list(lengths)
    draw = random.Random(options.seed)
    for _ in range(options.random):  # as many short ones as long ones, on a log scale
        chosen.append(min(round(2 ** draw.uniform(7, 18)), options.elements))
    found = {*options.shapes, *((options.elements // M, M) for M in chosen)}
    return sorted(found, key=lambda shape: shape[::-1])


def memory(options: argparse.Namespace) -> int:
    """Bytes of a case on the device: inputs, as many outputs, and room for what a peer makes on its way."""
    cases = (
        Case(options.operator, NAMES[dtype], N, M, options.device)
        for dtype in options.dtypes
        for N, M in options.shapes
    )
    return (2 * measure.INPUTS + 1) * max(case.input_bytes for case in cases)


def processes(options: argparse.Namespace) -> int:
    """How many may compile side by side."""
    if options.overhead or options.attention:
        return 1
    if options.jobs or options.device == "cpu":
        return options.jobs or 1
    room = torch.cuda.mem_get_info()[0] // (memory(options) + GIB)
    return max(1, min(len(os.sched_getaffinity(0)) - 1, 16, room, len(options.shapes) * len(options.dtypes)))


def method(options: argparse.Namespace, jobs: int) -> dict[str, object]:
    """How the numbers of a record came about."""
    if options.attention:
        return attention.method(attention.cases(options.device)[0], options.rounds)
    check = "a sample of rows, the first and the last among them, against float64; error 1 is the tolerance"
    if options.overhead:
        return {
            "rounds": options.rounds,
            "calls": measure.BURST,
            "us": "microseconds a call: wall time of a burst on the host, which does not wait for the device",
            "spread": "median over the rounds, quartiles low and high",
            "order": "each round runs a burst of every candidate, in another order",
            "ratio": "us over us of torch",
            "first_s": "seconds of the first call in a fresh process, imports done, caches empty",
            "cached_s": "the same in the next process, with the caches that it left",
            "check": check,
        }
    first = (
        f"first call, compilation included, in {jobs} processes side by side" if jobs > 1 else "first call"
    )
    return {
        "rounds": options.rounds,
        "seed": options.seed,
        "launch": "replay of a CUDA graph" if options.graph else "call",
        "us": measure.clock(options.device),
        "spread": "median over the rounds, quartiles low and high",
        "order": "each round launches every candidate once, the copy among them, in another order",
        "ratio": "bytes / us over bytes / us of the copy, torch.clone of the same input",
        "bytes": "the input once and the output once, whatever the candidate moves",
        "rotation": f"inputs and outputs take turns: {measure.INPUTS}, or up to {measure.MOST_INPUTS} "
        "until they are 4 times the L2 cache",
        "input": "normal, standard deviation 3",
        "check": check,
        "first_s": f"seconds of the {first}; caches on disk as they were found",
    }


def lines(options: argparse.Namespace, names: Sequence[str]) -> list[tuple[Case, Sequence[str]]]:
    """What is timed together: each case with its candidates."""
    if options.attention:
        return [(case, []) for case in attention.cases(options.device)]
    if options.variants:
        from camp_softmax.bench import variants  # needs cuda-core

        return [
            (Case("softmax", dtype, options.elements // M, M, options.device), chosen)
            for (dtype, M), chosen in variants.cases().items()
        ]
    return [
        (Case(options.operator, NAMES[dtype], N, M, options.device), names)
        for dtype in options.dtypes
        for N, M in options.shapes
    ]


def run(options: argparse.Namespace, jobs: int, names: Sequence[str], say: Callable[[str], None]) -> Outcome:
    """Every case; what is measured when a kernel kills the device is kept, with that failure as the last."""
    outcome = Outcome()
    todo = lines(options, names)
    compiled = measure.compile_all(todo, jobs, say) if jobs > 1 else {}
    for done, (case, chosen) in enumerate(todo, 1):
        say(f"{done}/{len(todo)} {case.label()}")
        try:
            if options.overhead:
                outcome.add(overhead(case, chosen, options.rounds, say))
            elif options.attention:
                outcome.add(attention.measure(case, options.rounds))
            else:
                first = compiled.get(case)
                outcome.add(measure.measure(case, chosen, options.rounds, graph=options.graph, first=first))
        except LostDeviceError as lost:
            outcome.failures.append((case, lost.candidate, f"{lost}: nothing after it was measured"))
            break
        if options.device == "cuda":
            torch.cuda.empty_cache()
    return outcome


def overhead(case: Case, names: Sequence[str], rounds: int, say: Callable[[str], None]) -> Outcome:
    """Calls and first calls of a case."""
    outcome = measure.overhead(case, names, rounds)
    for place, m in enumerate(outcome.measurements):
        say(f"first call of {m.candidate}, twice")
        try:
            cold, cached = measure.cold_and_cached(case, m.candidate)
        except (BrokenProcessPool, KeyError):  # it works in this process: its time stands without them
            outcome.failures.append(
                (case, m.candidate, "its first call fails in a process with empty caches")
            )
        else:
            outcome.measurements[place] = replace(m, first_s=round(cold, 3), cached_s=round(cached, 3))
    return outcome


def progress(text: str) -> None:
    """One line on stderr: rewritten on a terminal, else one after the other."""
    end, start = ("", "\r\033[K") if sys.stderr.isatty() else ("\n", "")
    print(f"{start}{text}", end=end, file=sys.stderr, flush=True)


def kind(options: argparse.Namespace) -> str:
    """What the numbers of the record are."""
    asked = [name for name in ("overhead", "variants", "attention") if getattr(options, name)]
    return asked[0] if asked else "bandwidth"


def destination(options: argparse.Namespace, device: str) -> Path | None:
    """Where the record goes, such as docs/results/nvidia-h200.json; None if nobody asked for it."""
    if not options.record:
        return options.output
    what = kind(options).replace("bandwidth", "")
    parts = [device, "" if options.operator == "softmax" else options.operator, what]
    name = "-".join(re.sub(r"[^a-z0-9]+", "-", part.lower()).strip("-") for part in parts if part)
    return RESULTS / f"{name}.json"


def main(given: Sequence[str] | None = None) -> int:
    """Runs what the arguments ask for; 1 if a kernel killed the device on the way."""
    options = arguments(given)
    where = stamp(options.device)
    missing = {} if options.attention else peers.missing(options.candidates, options.operator, options.device)
    jobs = processes(options)
    names = [name for name in options.candidates if name not in missing]
    outcome = run(options, jobs, names, progress)
    progress("")
    made = report.record(
        outcome,
        kind=kind(options),
        operator="attention" if options.attention else options.operator,
        stamp=where,
        method=method(options, jobs),
        missing=missing,
    )
    print(report.table(made))
    for path, text in (
        (destination(options, str(where["device"])), report.dump),
        (options.plot, report.plot),
    ):
        if path:
            report.write(path, text(made))
            print(f"\nwritten: {path}")
    return int(any("nothing after it" in reason for _, _, reason in outcome.failures))


if __name__ == "__main__":
    sys.exit(main())
