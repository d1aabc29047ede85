"""What helps and what does not: a kernel as it is, and with one decision of its design taken the other way.

A variant is the kernel's own source with a few lines replaced, or its plan with other numbers. It is
checked and timed like any candidate, so the record says what each decision is worth, and whether it is right.
"""

import dataclasses
import functools
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from camp_softmax.bench.peers import Call
from camp_softmax.cuda import plan, runtime
from camp_softmax.cuda.plan import Plan

Change = Callable[[Plan], Plan]


@dataclass(frozen=True)
class Variant:
    """One decision taken the other way.

    rung: the kernel; at: (dtype, M) of the rows where it is tried; edits: of each file, what is there and
    what instead; change: the plan instead.
    """

    rung: str
    at: tuple[tuple[torch.dtype, int], ...]
    edits: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    change: Change = lambda plan: plan


def with_constants(made: Plan, **constants: int) -> Plan:
    """A plan with other constants, and the threads and blocks that follow from them.

    Example:
        >>> with_constants(plan.single_read(4096, torch.float32, "SOFTMAX", True), THREADS=1024).threads
        1024
    """
    found = dict(made.constants) | {name: str(value) for name, value in constants.items()}
    threads = int(found["THREADS"]) + (plan.WARP if made.rung == "cluster" else 0)
    part = (
        int(found["THREADS"]) * int(found["STAGE"]) * int(found["STAGES"]) * plan.VECTOR
        if "STAGE" in found
        else 0
    )
    return dataclasses.replace(made, constants=tuple(found.items()), threads=threads, shared=part)


def vectors_a_thread(items: int) -> Change:
    """A block with more or fewer threads for the same row."""

    def change(made: Plan) -> Plan:
        old = dict(made.constants)
        warps = -(-int(old["THREADS"]) * int(old["ITEMS"]) // (items * plan.WARP))
        threads = warps * plan.WARP
        return with_constants(made, GROUP=threads, THREADS=threads, ITEMS=items, RESIDENT=1)

    return change


def clusters_of(blocks: int) -> Change:
    """The same row over more or fewer blocks, of fewer or more threads; as many bytes in flight."""

    def change(made: Plan) -> Plan:
        threads = int(dict(made.constants)["THREADS"]) * made.blocks // blocks
        return dataclasses.replace(with_constants(made, CLUSTER=blocks, THREADS=threads), blocks=blocks)

    return change


def rows_ahead(rows: int) -> Change:
    """A ring that holds more rows."""

    def change(made: Plan) -> Plan:
        return with_constants(made, STAGES=rows * int(dict(made.constants)["STAGES"]))

    return change


def in_flight(factor: float) -> Change:
    """More or fewer clusters at a time, as far as they fit."""
    return lambda made: dataclasses.replace(made, in_flight=max(1, round(factor * made.in_flight)))


def asked_ahead(size: int) -> Change:
    """Rows are asked for so many bytes before they are loaded."""
    return lambda made: with_constants(made, AHEAD=size)


SHORT = ((torch.float32, 1024), (torch.bfloat16, 1024))
MIDDLE = ((torch.float32, 4096), (torch.bfloat16, 4096))
LONG = ((torch.float32, 131072), (torch.bfloat16, 65536))
STREAMING = """\
__device__ Vector streaming_load(const Vector* p) {
    uint4 v = __ldcs(reinterpret_cast<const uint4*>(p));
    return {{v.x, v.y, v.z, v.w}};
}
__device__ void streaming_store(Vector* p, Vector v) {
    __stcs(reinterpret_cast<uint4*>(p), make_uint4(v.word[0], v.word[1], v.word[2], v.word[3]));
}
"""
WIDE = ((torch.float32, 4096), (torch.float32, 16384), (torch.bfloat16, 4096), (torch.bfloat16, 16384))
EXP = "return exp2_flushed(fmaf(x - m, LOG2E, RAISE));"

VARIANTS = {
    "one-vector": Variant("single_read", MIDDLE[:1], change=vectors_a_thread(1)),
    "four-vectors": Variant("single_read", MIDDLE, change=vectors_a_thread(4)),
    "eight-vectors": Variant("single_read", MIDDLE[:1], change=vectors_a_thread(8)),
    "scattered-rows": Variant(
        "single_read",
        MIDDLE,
        {"single_read.cuh": ((": blockIdx.x;", ": blockIdx.x * 7919LL % rows;"),)},
    ),
    "streaming-hints": Variant(
        "single_read",
        (*SHORT, *MIDDLE),
        {
            "single_read.cuh": (
                ("row.in()[j] : NOTHING", "streaming_load(row.in() + j) : NOTHING"),
                ("row.out()[j] = items.packed(i)", "streaming_store(row.out() + j, items.packed(i))"),
            ),
            "row.cuh": (("struct Float32 {", STREAMING + "struct Float32 {"),),
        },
    ),
    "expf": Variant(
        "single_read", (*SHORT, *MIDDLE), {"row.cuh": ((EXP, "return expf(x - m) * (1 << 24);"),)}
    ),
    "not-asked": Variant("single_read", WIDE, {"single_read.cuh": (("ask_ahead(x, rows, M, step);", ""),)}),
    "asked-too-early": Variant("single_read", WIDE, change=asked_ahead(12 << 20)),
    "cluster-not-asked": Variant(
        "cluster", LONG, {"cluster.cuh": (("if (later < rows &&", "if (false &&"),)}
    ),
    "in-one-piece": Variant(
        "cluster",
        LONG,
        {"cluster.cuh": (("(p * CLUSTER + rank) * piece", "(rank * STAGES_A_PART + p) * piece"),)},
    ),
    "clusters-of-16": Variant("cluster", LONG, change=clusters_of(16)),
    "clusters-of-4": Variant("cluster", LONG[1:], change=clusters_of(4)),
    "two-rows-ahead": Variant("cluster", LONG, change=rows_ahead(2)),
    "half-in-flight": Variant("cluster", LONG, change=in_flight(0.5)),
    "all-in-flight": Variant("cluster", LONG, change=in_flight(100)),
    "round-robin": Variant(
        "cluster",
        LONG,
        {
            "cluster.cuh": (
                (
                    "int index = rank == 0 ? take_row(counter, rows) : 0;",
                    "int index = (blockIdx.x + gridDim.x) / CLUSTER;",
                ),
                ("if (rank == 0) index = take_row(counter, rows);", "index += gridDim.x / CLUSTER;"),
            )
        },
    ),
    "no-fence": Variant("cluster", LONG, {"cluster.cuh": (("reads_before_bulk_load();", ""),)}),
}


def call(name: str) -> Call:
    """A variant as a candidate: softmax of (N, M) contiguous aligned rows on a CUDA device."""

    def softmax(rows: Tensor) -> Tensor:
        N, M = rows.shape
        out = torch.empty_like(rows)
        _launcher(name, M, rows.dtype, rows.get_device())(rows.data_ptr(), out.data_ptr(), N, M, M)
        return out

    return softmax


def cases() -> dict[tuple[torch.dtype, int], list[str]]:
    """What is timed on rows of each dtype and length: copy, the kernels as they are, and their variants."""
    found: dict[tuple[torch.dtype, int], list[str]] = {}
    for name, variant in VARIANTS.items():
        for at in variant.at:
            names = found.setdefault(at, ["copy"])
            if f"cuda.{variant.rung}" not in names:
                names.append(f"cuda.{variant.rung}")
            names.append(f"variant.{name}")
    return found


@functools.cache
def _launcher(name: str, M: int, dtype: torch.dtype, device: int) -> runtime.Launcher:
    variant = VARIANTS[name]
    changed = variant.change(plan.READ_ONCE[variant.rung](M, dtype, "SOFTMAX", True))
    if not variant.edits:
        return runtime.Launcher(changed, device)
    with tempfile.TemporaryDirectory() as folder:
        return runtime.Launcher(changed, device, source(name, Path(folder)))


def source(name: str, folder: Path) -> Path:
    """The kernels' sources with the variant's edits, in `folder`; ValueError if a line is not there once.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     (source("no-fence", Path(folder)) / "cluster.cuh").exists()
        True
    """
    for path in runtime.HERE.glob("*.cuh"):
        shutil.copy(path, folder)
    for file, edits in VARIANTS[name].edits.items():
        text = (folder / file).read_text(encoding="utf-8")
        for old, new in edits:
            if text.count(old) != 1:
                raise ValueError(f"{name}: expected once in {file}, found {text.count(old)} times: {old}")
            text = text.replace(old, new)
        (folder / file).write_text(text, encoding="utf-8")
    return folder
