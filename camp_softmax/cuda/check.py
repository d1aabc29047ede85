"""`python -m camp_softmax.cuda.check FILE.cuh`: a learner's kernel on the CPU, held to float64.

The kernel runs under the checker, on rows that break wrong kernels, under several schedules, in a process
of its own with a time limit. What is found is printed as FILE:LINE: what. The exit code says whether anything
was: 0 no, 1 yes; 2, if the kernel could not be run at all.
"""

import argparse
import faulthandler
import multiprocessing
import re
import signal
import sys
import time
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from torch import Tensor

from camp_softmax import reference
from camp_softmax.cuda import OPERATORS
from camp_softmax.cuda.host import Finding, Kernel, Memory
from camp_softmax.cuda.plan import BLOCK

FORMS = {  # of a kernel: the letters of its parameters (see host/cuda.hpp), and how it is called
    r"p[pc]ii": (
        "(float* out, const float* in, int rows, int cols)",
        lambda x, y: (Memory.of(y), Memory.of(x), *x.shape),
    ),
    r"[pc]pl": (
        "(const float* x, float* y, long long M)",
        lambda x, y: (Memory.of(x), Memory.of(y), x.shape[1]),
    ),
}
GRACE = 5  # seconds more for the launch to say itself where it was


def outliers(rows: int, cols: int) -> Tensor:
    """Normal numbers, and one in a hundred much larger: its exp() overflows."""
    generator = torch.Generator().manual_seed(0)
    x = 3 * torch.randn(rows, cols, generator=generator)
    return x + 100 * (torch.rand(rows, cols, generator=generator) < 0.01)


def falling(rows: int, cols: int) -> Tensor:
    """From 1000 down to -1000: the maximum comes first, and most weights are 0."""
    return torch.linspace(1000, -1000, cols).repeat(rows, 1)


INPUTS: dict[str, Callable[[int, int], Tensor]] = {
    "rows with outliers": outliers,
    "negative rows": lambda rows, cols: -200 - 10 * outliers(rows, cols).abs(),
    "falling rows": falling,
    "rising rows": lambda rows, cols: falling(rows, cols).flip(1),
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "python -m camp_softmax.cuda.check", description=(__doc__ or "").split("\n\n")[1]
    )
    parser.add_argument("file", type=Path, metavar="FILE.cuh")
    parser.add_argument("--kernel", metavar="NAME", help="default: the only one in the file")
    parser.add_argument(
        "--shape", type=_shape, default=(64, 1000), metavar="NxM", help="rows x columns; default: 64x1000"
    )
    parser.add_argument(
        "--operator", choices=OPERATORS, default="softmax", help="what it computes; default: softmax"
    )
    parser.add_argument(
        "--threads", type=int, default=BLOCK, help="of a block, one block a row; default: 256"
    )
    parser.add_argument(
        "--schedules", type=int, default=3, metavar="K", help="orders of the threads to try; default: 3"
    )
    parser.add_argument("--seconds", type=float, default=20, metavar="S", help="time limit; default: 20")
    options = parser.parse_args(arguments)
    try:
        line, name = find_kernel(options.file, options.kernel)
        kernel = Kernel(options.file, name)
        if not any(re.fullmatch(letters, kernel.letters) for letters in FORMS):
            forms = " or ".join(f"{name}{form}" for form, _ in FORMS.values())
            raise RuntimeError(f"{options.file}:{line}: expected the kernel to be {forms}")
        if not 1 <= options.threads <= 1024:
            raise RuntimeError(f"a block has up to 1024 threads, got {options.threads}")
    except (OSError, RuntimeError) as error:
        print(error)
        return 2
    place = f"{options.file}:{line}"
    finding = within(options.seconds, place, lambda: launches(kernel, place, options))
    done = f"{name}: nothing found in {len(INPUTS)} inputs of {'x'.join(map(str, options.shape))}"
    print(finding or f"{done} under {options.schedules} schedules each")
    return 1 if finding else 0


def _shape(text: str) -> tuple[int, int]:
    if not re.fullmatch(r"[1-9]\d*x[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"expected ROWSxCOLUMNS such as 64x1000, got {text!r}")
    rows, cols = map(int, text.split("x"))
    return rows, cols


def find_kernel(path: Path, name: str | None) -> tuple[int, str]:
    """The line and the name of a kernel.

    Raises:
        RuntimeError: there is no such kernel, or, without a name, more than one.
    """
    source = path.read_text("utf-8")
    pattern = r'extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\('
    kernels = {found[1]: source.count("\n", 0, found.start(1)) + 1 for found in re.finditer(pattern, source)}
    if name is None and len(kernels) == 1:
        (name,) = kernels
    if name is None or name not in kernels:
        wanted = f"a kernel {name}" if name else "one kernel, or --kernel NAME"
        raise RuntimeError(
            f'{path}: expected {wanted} (extern "C" __global__ void NAME), found: {list(kernels)}'
        )
    return kernels[name], name


def launches(kernel: Kernel, place: str, options: argparse.Namespace) -> str:
    """What is found first, or nothing."""
    end = time.monotonic() + options.seconds
    rows, cols = options.shape
    call = next(call for letters, (_, call) in FORMS.items() if re.fullmatch(letters, kernel.letters))
    for what, make in INPUTS.items():
        x = make(rows, cols)
        for seed in range(options.schedules):
            y = torch.full((rows,) if options.operator == "logsumexp" else (rows, cols), torch.nan)
            try:
                left = max(end - time.monotonic(), 0.01)
                kernel(rows, options.threads, *call(x, y), seed=seed, seconds=left)
            except Finding as finding:
                return str(finding)
            want, allowed = reference.expected(options.operator, x)
            error = ((y - want).abs() / allowed).nan_to_num(torch.inf)
            wrong = error > 1
            if wrong.any():
                at = (error == error.max()).nonzero()[0].tolist()
                axes = zip(("row", "column"), at, strict=False)
                where = " ".join(f"{axis} {i}" for axis, i in axes)
                got, right = y[*at].item(), want[*at].item()
                return (
                    f"{place}: wrong value: {kernel.name} gives {got:.6g} where {right:.6g} "
                    f"is right, in {where} of {what}; {int(wrong.sum())} of {y.numel()} elements are wrong"
                )
    return ""


def within(seconds: float, place: str, work: Callable[[], str]) -> str:
    """What `work` returns from a process of its own; not to return in time, or at all, is a finding."""
    ours, theirs = multiprocessing.Pipe(duplex=False)

    def child(connection: Connection) -> None:
        faulthandler.disable()  # where it is on: one line says enough of a crash
        connection.send(work())

    process = multiprocessing.get_context("fork").Process(target=child, args=(theirs,), daemon=True)
    with warnings.catch_warnings():
        # Of a fork beside threads, which wait for work here.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    theirs.close()
    try:
        if ours.poll(seconds + GRACE):  # in time, unless the kernel is in a loop that touches no memory
            return ours.recv()
    except EOFError:
        process.join()
        code = process.exitcode or 0
        died = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return (
            f"{place}: crash: the launch died of {died}; look for a function that calls itself without end, "
            "or a call through a wild pointer"
        )
    finally:
        process.kill()
        process.join()
    return f"{place}: no end: still running after {seconds:g} s; make sure that each loop ends"


if __name__ == "__main__":
    sys.exit(main())
