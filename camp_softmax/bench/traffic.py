"""`python -m camp_softmax.bench.traffic`: the bytes that kernels really move, by the counters of the GPU.

`reference.bytes_moved` counts what a rung asks for. A cache may answer some of it, and less moves.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from camp_softmax.bench import peers, report
from camp_softmax.bench.measure import Outcome
from camp_softmax.stamp import stamp

CANDIDATES = (
    "torch", "cuda.three_pass", "cuda.online", "tilelang.online", "cuda.single_read", "tilelang.single_read",
    "cuda.cluster", "tilelang.cluster",
)  # fmt: skip
LENGTHS = (4096, 131072)  # the rows on their way fit into the L2 cache, and do not
ELEMENTS = 2**28  # so many that what the cache holds back at the end is little
METRICS = {"dram__bytes_read.sum": "read", "dram__bytes_write.sum": "written"}
NCU = (
    *("ncu", "--csv", "--print-units", "base", "--clock-control", "none", "--profile-from-start", "off"),
    *("--metrics", ",".join(METRICS)),
)
METHOD = {
    "tool": " ".join(NCU),
    "read": "elements that come from memory for each element of the input, the caches empty before",
    "written": "elements that go there; what is in the cache at the end of a kernel is not counted",
}


def launch_each() -> list[tuple[str, int]]:
    """Launches every candidate that takes the length, once where the profiler looks on; in order."""
    launched = []
    for M in LENGTHS:
        x = torch.randn(ELEMENTS // M, M, device="cuda")
        for name in CANDIDATES:
            try:
                call = peers.load(name, "softmax", "cuda")
                call(x)  # compiles
            except ValueError:  # rows too long for it
                continue
            torch.cuda.synchronize()
            torch.cuda.profiler.start()
            call(x)
            torch.cuda.synchronize()
            torch.cuda.profiler.stop()
            launched.append((name, M))
    return launched


def counters(log: str) -> list[dict[str, float]]:
    """Of each kernel in ncu's CSV, in order: bytes by the names in METRICS.

    Example:
        >>> counters('"ID","Metric Name","Metric Value"\\n"0","dram__bytes_read.sum","4,096"\\n')
        [{'read': 4096.0}]
    """
    lines = [line for line in log.splitlines() if line.startswith('"')]
    found: dict[str, dict[str, float]] = {}
    for row in csv.DictReader(lines):
        value = float(row["Metric Value"].replace(",", ""))
        found.setdefault(row["ID"], {})[METRICS[row["Metric Name"]]] = value
    return list(found.values())


def measure() -> list[dict[str, object]]:
    """A line for each candidate and length.

    Raises:
        RuntimeError: ncu failed, or a candidate launched more than one kernel.
    """
    with tempfile.TemporaryDirectory() as folder:
        log, told = Path(folder) / "log", Path(folder) / "launched"
        child = [sys.executable, "-m", "camp_softmax.bench.traffic", "--launch", str(told)]
        done = subprocess.run([*NCU, "--log-file", str(log), *child], capture_output=True, text=True)
        text = log.read_text("utf-8") if log.exists() else ""
        if done.returncode:
            raise RuntimeError(f"ncu failed: {text}{done.stdout}{done.stderr}")
        launched, found = json.loads(told.read_text("utf-8")), counters(text)
    if len(launched) != len(found):
        raise RuntimeError(f"{len(launched)} calls launched {len(found)} kernels:\n{text}")
    return [
        {"dtype": "float32", "N": ELEMENTS // M, "M": M, "candidate": name}
        | {key: round(value / ELEMENTS / 4, 3) for key, value in counts.items()}
        for (name, M), counts in zip(launched, found, strict=True)
    ]


def main(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m camp_softmax.bench.traffic", description=(__doc__ or "").partition(": ")[2]
    )
    parser.add_argument("--output", type=Path, metavar="FILE.json", help="write the record there")
    parser.add_argument("--launch", type=Path, metavar="FILE", help=argparse.SUPPRESS)  # what ncu runs
    options = parser.parse_args(given)
    if not torch.cuda.is_available():
        parser.error("torch sees no CUDA device")
    if options.launch:
        options.launch.write_text(json.dumps(launch_each()), "utf-8")
        return 0
    lines = measure()
    where = stamp("cuda")
    made = report.record(
        Outcome(), kind="traffic", operator="softmax", stamp=where, method=METHOD, missing={}
    )
    made["measurements"] = lines
    for line in lines:
        print(
            f"{line['candidate']:>22} {line['M']:>7}  read {line['read']:.3f}  written {line['written']:.3f}"
        )
    if options.output:
        report.write(options.output, report.dump(made))
    return 0


if __name__ == "__main__":
    sys.exit(main())
