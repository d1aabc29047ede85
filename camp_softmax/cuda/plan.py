"""Which CUDA kernel a row gets, and with which constants: rules that fit what was measured on an H200.

The constants are compiled in, so that loops unroll and rows stay in registers: one compilation for each
dtype, output and row length up to rounding, however many rows there are.
"""

import functools
from dataclasses import dataclass

import torch

ELEMENTS = {torch.float32: "Float32", torch.float16: "Float16", torch.bfloat16: "BFloat16"}
VECTOR = 16  # bytes that one instruction loads
WARP = 32
ITEMS = 8  # vectors a thread can hold at full speed

# Up to here one block reads a row. Beyond, a 16-bit row leaves room for one block a multiprocessor, which
# then waits for memory with nothing else to do; of float32 rows one is enough to keep it busy.
LONGEST_SINGLE_READ = {torch.float32: 24576, torch.float16: 20480, torch.bfloat16: 20480}
CAPACITY = 65536  # of 1024 threads with 64 elements each
LONGEST_CLUSTER = 524288  # 16 blocks of 512 threads with 64 elements each

# Rows in registers and on their way. Fewer do not cover the latency of memory; more widen the window of DRAM
# pages that are open at once.
BYTES_IN_FLIGHT = 11 << 20


@dataclass(frozen=True)
class Plan:
    """A kernel and how it is launched.

    constants: what is defined when it is compiled; threads: in a block; rows: a block takes (single_read);
    blocks: a row takes (cluster); shared: bytes of dynamic shared memory; in_flight: clusters at most.
    """

    rung: str
    constants: tuple[tuple[str, str], ...]
    threads: int
    rows: int = 1
    blocks: int = 1
    shared: int = 0
    in_flight: int = 0


@functools.cache
def single_read(M: int, dtype: torch.dtype, output: str, aligned: bool) -> Plan:
    """A row in the registers of some lanes of a warp, or of a block.

    Args:
        M: elements in a row.
        dtype: a key of ELEMENTS.
        output: "SOFTMAX", "LOG_SOFTMAX" or "LOGSUMEXP".
        aligned: every row starts and ends at a multiple of 16 bytes.

    Raises:
        ValueError: M exceeds what a block of 1024 threads holds.

    Example:
        >>> single_read(4096, torch.float32, "SOFTMAX", aligned=True).threads
        512
    """
    width = VECTOR // dtype.itemsize
    vectors = max(1, M // width)
    in_warp = vectors <= (2 if aligned else 4) * WARP
    if in_warp:
        group, items = _lanes(vectors, 1 if aligned else width)
        threads = 4 * WARP
    else:
        # Two vectors a thread: enough loads on their way, and the most threads.
        items = next((n for n in (2, 4, 8, 16) if vectors <= n * 1024 and n * width <= 64), 0)
        if not items:
            raise ValueError(f"single_read: expected rows of up to {CAPACITY} elements, got {M}")
        threads = group = _round_up(vectors, items * WARP) // items
    constants = {"GROUP": group, "THREADS": threads, "ITEMS": items}
    return Plan(
        "single_read",
        _constants(constants, aligned, dtype, output),
        threads,
        threads // group if in_warp else 1,
    )


def _lanes(vectors: int, least: int) -> tuple[int, int]:
    """How many lanes share a row, a power of two, and how many vectors each takes: few may stay idle.

    Example:
        >>> _lanes(16, 1), _lanes(25, 1), _lanes(83, 4)
        ((8, 2), (16, 2), (32, 3))
    """
    fits = [(lanes, -(-vectors // lanes)) for lanes in (1, 2, 4, 8, 16, 32) if lanes >= least]
    fits = [(lanes, items) for lanes, items in fits if items <= 4]
    return max(fits, key=lambda fit: (vectors / (fit[0] * fit[1]), fit[0] > 2 and fit[1] == 2, fit[0]))


@functools.cache
def cluster(M: int, dtype: torch.dtype, output: str, aligned: bool) -> Plan:
    """A row in the registers of a cluster, the next one or two in its shared memory; arguments as above.

    Raises:
        ValueError: M exceeds LONGEST_CLUSTER.
    """
    if M > LONGEST_CLUSTER:
        raise ValueError(f"cluster: expected rows of up to {LONGEST_CLUSTER} elements, got {M}")
    width = VECTOR // dtype.itemsize
    vectors = max(1, M // width)
    blocks = next(n for n in (2, 4, 8, 16) if n == 16 or vectors <= n * 4 * WARP * ITEMS)
    share = _round_up(-(-vectors // blocks), 8)  # whole lines of 128 bytes, as the kernel deals them out
    items = ITEMS if share <= 512 * ITEMS else 2 * ITEMS
    threads = _round_up(share, items * WARP) // items
    part = threads * items * VECTOR  # bytes of a row in each block
    ahead = 2 if dtype == torch.float32 and part <= 48 << 10 else 1  # rows in the ring
    stage, stages = 2, ahead * items // 2
    constants = {"THREADS": threads, "ITEMS": items, "STAGE": stage, "STAGES": stages, "CLUSTER": blocks}
    return Plan(
        "cluster",
        _constants(constants, aligned, dtype, output),
        threads + WARP,
        blocks=blocks,
        shared=stages * stage * threads * VECTOR,
        in_flight=max(1, round(BYTES_IN_FLIGHT / (part * blocks * (1 + ahead)))),
    )


def _constants(
    sizes: dict[str, int], aligned: bool, dtype: torch.dtype, output: str
) -> tuple[tuple[str, str], ...]:
    of_row = {"ELEMENT": ELEMENTS[dtype], "ALIGNED": str(aligned).lower(), "OUTPUT": output}
    return tuple((name, str(value)) for name, value in (sizes | of_row).items())


def _round_up(n: int, step: int) -> int:
    return -(-n // step) * step
