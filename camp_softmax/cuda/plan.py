"""Which CUDA kernel a row gets, and with which constants: rules that fit what was measured on an H200.

The constants are compiled in, so that loops unroll and rows stay in registers: one compilation for each
dtype, output and row length up to rounding, however many rows there are.
"""

import functools
import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from camp_softmax.limits import LARGEST

ELEMENTS = {torch.float32: "Float32", torch.float16: "Float16", torch.bfloat16: "BFloat16"}
VECTOR = 16  # bytes that one instruction loads
WORD = 4  # bytes of a register
WARP = 32
BLOCK = 256  # threads of the kernels below rung 3: a power of two, for the reduction tree

LONGEST_SINGLE_READ = 24576  # of longer rows, a multiprocessor has room for one block alone
# Up to here rows that begin anywhere are computed many at a time; and those of 3 or 5 vectors, which would
# leave lanes idle.
LONGEST_PACKED = {torch.float32: 128, torch.float16: 704, torch.bfloat16: 704}
MOST_WORDS = 11  # of a row in each lane; with 12, rows of 12 words would begin in 8 banks only
CAPACITY = 65536  # of 1024 threads with 64 elements each
LONGEST_CLUSTER = 524288  # 16 blocks of 512 threads with 64 elements each

# Up to here a block keeps a row of y and one of dy: 1024 threads with 4 vectors of each.
LONGEST_BACKWARD = {torch.float32: 16384, torch.float16: 32768, torch.bfloat16: 32768}

# Blocks of a cluster, vectors of a thread, threads at most: the first of these that hold the row.
CLUSTERS = {
    torch.float32: ((8, 8, 512), (8, 16, 416), (16, 16, 512)),
    torch.float16: ((8, 4, 256), (8, 8, 256), (16, 8, 512)),
    torch.bfloat16: ((8, 4, 256), (8, 8, 256), (16, 8, 512)),
}
STAGES = (
    4  # of a ring, which holds a row: the smaller its pieces, the closer together is what a cluster loads
)

# Rows in registers and on their way. Fewer do not cover the latency of memory; more widen the window of DRAM
# pages that are open at once.
BYTES_IN_FLIGHT = {torch.float32: 12 << 20, torch.float16: 16 << 20, torch.bfloat16: 16 << 20}
MULTIPROCESSORS = 132  # none of them without a block

# Rows are asked for so many bytes before they are loaded, and then come from the L2 cache. From 5 MB on it is
# slower again.
AHEAD = 3 << 20


Constants = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Plan:
    """A kernel and how it is launched.

    rung: the file; entry: the kernel in it; constants: what is defined when it is compiled; threads: in a
    block; rows: a block takes (ROWS_A_BLOCK); blocks: a row takes (cluster); shared: bytes of dynamic shared
    memory; in_flight: clusters at most.
    """

    rung: str
    entry: str
    constants: Constants
    threads: int
    rows: int = 1
    blocks: int = 1
    shared: int = 0
    in_flight: int = 0

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        names = {name: dtype.itemsize for dtype, name in ELEMENTS.items()}
        return names[dict(self.constants).get("ELEMENT", "Float32")]

    @property
    def reduces(self) -> bool:
        """Each row to one element."""
        return self.entry.startswith("logsumexp") or ("OUTPUT", "LOGSUMEXP") in self.constants


def one_block_a_row(rung: str, operator: str) -> Plan:
    """The kernels below rung 3, for rows of any length; `operator` in lower case."""
    return Plan(rung, f"{operator}_{rung}", (), BLOCK)


@functools.lru_cache(maxsize=4096)
def single_read(M: int, dtype: torch.dtype, output: str, aligned: bool, dense: bool = False) -> Plan:
    """A row in the registers of some lanes of a warp, or of a block.

    Args:
        M: elements in a row.
        dtype: a key of ELEMENTS.
        output: "SOFTMAX", "LOG_SOFTMAX" or "LOGSUMEXP".
        aligned: every row starts and ends at a multiple of 16 bytes.
        dense: each row begins where the one before it ends.

    Raises:
        ValueError: M exceeds what a block of 1024 threads holds.

    Example:
        >>> single_read(4096, torch.float32, "SOFTMAX", aligned=True).threads
        512
    """
    if M > CAPACITY:
        raise ValueError(f"single_read: expected rows of up to {CAPACITY} elements, got {M}")
    if dense and LONGEST_PACKED[dtype] >= M and (not aligned or M * dtype.itemsize // VECTOR in (3, 5)):
        return _packed(M, dtype, output, aligned)
    held = _Held(words=VECTOR // dtype.itemsize, wanted=3 if dtype == torch.float32 else 4)
    return _in_registers("single_read", M, dtype, output, aligned, held)


@functools.lru_cache(maxsize=4096)
def backward(M: int, dtype: torch.dtype, output: str, aligned: bool) -> Plan:
    """A row of y and one of dy in registers, or, beyond LONGEST_BACKWARD, both scanned twice.

    Arguments as above; output is "SOFTMAX" or "LOG_SOFTMAX", whose gradient is wanted.

    Raises:
        ValueError: M exceeds what the kernel counts.

    Example:
        >>> backward(8192, torch.float32, "SOFTMAX", aligned=True).threads
        512
        >>> dict(backward(20000, torch.float32, "SOFTMAX", aligned=True).constants)["WHOLE_ROW"]
        'false'
    """
    if M > LARGEST:
        raise ValueError(f"backward: expected rows of up to {LARGEST} elements, got {M}")
    whole = LONGEST_BACKWARD[dtype] >= M
    if whole:
        made = _in_registers("backward", M, dtype, output, aligned, _PAIR)
    else:
        # Two blocks a multiprocessor: while one waits for its sum, the other loads.
        threads, items = 512, 4 if aligned else 3
        resident = _resident(threads // WARP, _PAIR.registers(items))
        sizes = {"GROUP": threads, "THREADS": threads, "ITEMS": items, "RESIDENT": resident}
        made = Plan("backward", "backward", _constants(sizes, aligned, dtype, output), threads)
    return replace(made, constants=(*made.constants, ("WHOLE_ROW", str(whole).lower())))


class _Held(NamedTuple):
    """What a thread has of a row: a vector of each of so many tensors takes so many registers, words, and all
    of it so many more than a kernel of one tensor, besides. So many vectors are wanted if all else is equal.
    """

    words: int
    tensors: int = 1
    besides: int = 0
    wanted: int = 3

    def registers(self, items: int) -> int:
        return items * self.words + self.besides


# The vectors of y and dy stay as they were loaded, two elements of 16 bits in a register.
_PAIR = _Held(words=2 * VECTOR // 4, tensors=2, besides=8)


def _in_registers(
    rung: str,
    M: int,
    dtype: torch.dtype,
    output: str,
    aligned: bool,
    held: _Held,
) -> Plan:
    width = VECTOR // dtype.itemsize
    vectors = max(1, M // width)
    in_warp = vectors <= (3 if aligned else 4) * WARP
    if in_warp:
        group, items = _lanes(vectors, 1 if aligned else 2 * width)
        threads = 4 * WARP
    else:
        items = _items(vectors, held)
        threads = group = _round_up(vectors, items * WARP) // items
    resident = max(1, _resident(threads // WARP, held.registers(items)))
    constants = {"GROUP": group, "THREADS": threads, "ITEMS": items, "RESIDENT": resident}
    return Plan(
        rung,
        rung,
        _constants(constants, aligned, dtype, output),
        threads,
        threads // group if in_warp else 1,
    )


def _resident(warps: int, words: int) -> int:
    """Blocks that fit a multiprocessor, spilling a word at most: 64 warps, 512 registers a lane of a quarter.

    A thread needs a register for each word of its rows and some 16 more, in steps of 8.

    Example:
        >>> _resident(16, 8), _resident(14, 32), _resident(32, 64)
        (4, 2, 0)
    """
    registers = max(32, _round_up(words + 16, 8))
    return min(32, 64 // warps, 4 * (512 // registers) // warps)


def _items(vectors: int, held: _Held) -> int:
    """How many vectors a thread of a block takes: so that enough of memory is on its way, and hardly more.

    That is 48 KB a multiprocessor, and 62 KB of each tensor if only two blocks share it: their phases leave
    gaps. And hardly a thread in three is idle.

    Example:
        >>> [_items(vectors, _Held(4)) for vectors in (128, 1024, 1500)], _items(1024, _PAIR)
        ([2, 2, 3], 3)
    """

    def merit(items: int) -> tuple[bool, bool, int, int]:
        warps = -(-vectors // (items * WARP))
        resident = _resident(warps, held.registers(items))
        on_its_way = resident * vectors * VECTOR * held.tensors
        enough = on_its_way >= (48_000 if resident > 2 else 62_000 * held.tensors)
        busy = 2 * warps * WARP * items < 3 * vectors
        return busy, enough, -on_its_way if enough else on_its_way, -abs(items - held.wanted)

    return max(
        (n for n in (2, 3, 4, 6, 8, 12, 16) if vectors <= n * 1024 and n * held.words <= 64), key=merit
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


@functools.lru_cache(maxsize=4096)
def cluster(M: int, dtype: torch.dtype, output: str, aligned: bool) -> Plan:
    """A row in the registers of a cluster, the next one in its shared memory; arguments as above.

    Raises:
        ValueError: M exceeds LONGEST_CLUSTER.
    """
    if M > LONGEST_CLUSTER:
        raise ValueError(f"cluster: expected rows of up to {LONGEST_CLUSTER} elements, got {M}")
    width = VECTOR // dtype.itemsize
    vectors = max(1, M // width)
    blocks, items, _ = next(of for of in CLUSTERS[dtype] if vectors <= math.prod(of))
    piece = _round_up(
        -(-vectors // (blocks * STAGES)), 8
    )  # whole lines of 128 bytes, as the kernel deals them out
    stage = items // STAGES
    threads = _round_up(piece, stage * WARP) // stage
    part = threads * items * VECTOR  # bytes of a row in each block
    constants = {"THREADS": threads, "ITEMS": items, "STAGE": stage, "STAGES": STAGES, "CLUSTER": blocks}
    return Plan(
        "cluster",
        "cluster",
        _constants(constants, aligned, dtype, output),
        threads + WARP,
        blocks=blocks,
        shared=part,
        in_flight=max(MULTIPROCESSORS // blocks, round(BYTES_IN_FLIGHT[dtype] / (2 * part * blocks))),
    )


def _packed(M: int, dtype: torch.dtype, output: str, aligned: bool) -> Plan:
    """Short rows, many of which pass through the shared memory of a block; its kernel says how."""
    threads, loads, in_a_word = 4 * WARP, 4, WORD // dtype.itemsize
    lanes = next(n for n in (1, 2, 4, 8, 16, 32) if n * MOST_WORDS * in_a_word >= M)
    at_a_time = threads // lanes
    fit = threads * loads * VECTOR // (at_a_time * M * dtype.itemsize)
    passes = min(32, 1 << (fit.bit_length() - 1))
    rows = passes * at_a_time
    conflicts = functools.partial(_conflicts, M * dtype.itemsize, dtype.itemsize, lanes, rows)
    sizes = {
        "GROUP": lanes,
        "WORDS": -(-M // (lanes * in_a_word)),
        "PASSES": passes,
        "STEP": min(range(1, min(rows, 64), 2), key=conflicts),
        "THREADS": threads,
        "LOADS": loads,
        "ITEMS": 1,
        "RESIDENT": 8,
    }
    return Plan("packed", "packed_rows", _constants(sizes, aligned, dtype, output), threads, rows)


def _conflicts(row: int, element: int, lanes: int, rows: int, step: int) -> int:
    """How many words a warp wants at most of one of the 32 banks of shared memory, each of which gives one at
    a time: `lanes` neighbours read neighbouring elements of one of `rows` rows, the next ones `step` rows on.

    Example: rows of 63 16-bit elements begin nearly where a bank does, all of them; every seventh does not.
        >>> _conflicts(126, 2, 4, 64, 1), _conflicts(126, 2, 4, 64, 7)
        (5, 1)
    """
    words = {(lane // lanes * step % rows * row + lane % lanes * element) // WORD for lane in range(WARP)}
    return max(Counter(word % 32 for word in words).values())


READ_ONCE = {"single_read": single_read, "cluster": cluster}  # by the name of the rung
ROWS_A_BLOCK = ("single_read", "packed", "backward")  # kernels that count the rows: a block may have several


def _constants(sizes: dict[str, int], aligned: bool, dtype: torch.dtype, output: str) -> Constants:
    of_row = {"ELEMENT": ELEMENTS[dtype], "ALIGNED": str(aligned).lower(), "OUTPUT": output, "AHEAD": AHEAD}
    return tuple((name, str(value)) for name, value in (sizes | of_row).items())


def _round_up(n: int, step: int) -> int:
    return -(-n // step) * step
