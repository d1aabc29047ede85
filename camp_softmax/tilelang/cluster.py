"""Rung 4: a row over the blocks of a cluster, which tell each other their states, in TileLang.

From the rung below: a row no longer has to fit one multiprocessor, and leaves room for several blocks on
each, still 2 elements moved per element. The state of each warp goes to every block of the cluster, through
distributed shared memory; then each warp merges them all, as in single_read.py. Stops winning, and working,
where a row exceeds the registers of 16 blocks. It needs a GPU of compute capability 9.0 or later.
"""

import tilelang.language as T
import torch
from torch import Tensor

from camp_softmax.tilelang.rows import check, run
from camp_softmax.tilelang.single_read import (
    VECTOR,
    WARP,
    Tile,
    group_state,
    load,
    merge_states,
    vectors,
    write,
)

CAPACITY = 524288  # elements of a row: 64 in each thread of 16 blocks
WARPS = 16  # a block, so that one whole warp sends their (m, s): TileLang has no barrier for half a warp
# Other blocks write into this one's memory at times that the compiler does not know of: it must reuse none.
OPTIONS = ("tl.disable_shared_memory_reuse",)


def tile_for(M: int, dtype: str) -> tuple[Tile, int]:
    """What each block holds of rows of M elements, and the number of blocks in a cluster.

    Raises:
        ValueError: M exceeds CAPACITY.

    Example:
        >>> tile_for(65536, "float32")
        (Tile(M=65536, width=4, lanes=32, items=8, groups=16, rows=1), 4)
    """
    if M > CAPACITY:
        raise ValueError(f"cluster: expected rows of up to {CAPACITY} elements, got {M}")
    width = VECTOR // getattr(torch, dtype).itemsize
    count = vectors(M, width)
    # Few blocks wait for each other less, but the arithmetic on a 16-bit vector needs registers of its own.
    sizes, most = ((4, 8, 16), 16) if width == 4 else ((2, 4, 8, 16), 4)
    blocks = next(n for n in sizes if n == 16 or count <= n * WARPS * WARP * most)
    return Tile(M, width, WARP, -(-count // (blocks * WARPS * WARP)), WARPS, 1), blocks


# --8<-- [start:kernel]
def kernel(M: int, dtype: str, operator: str, chosen: tuple[Tile, int] | None = None):
    """B = operator(A), row by row: N rows, known at launch, of M columns, each over a cluster of blocks."""
    tile, blocks = chosen or tile_for(M, dtype)
    N = T.dynamic("N")
    result = (N,) if operator == "logsumexp" else (N, M)
    cap = T.max_value("float32") if operator == "logsumexp" else T.infinity("float32")
    warps = tile.groups

    @T.prim_func
    def cluster(A: T.Tensor((N, M), dtype), B: T.Tensor(result, dtype)):
        with T.ClusterKernel(N, blocks, threads=warps * WARP, cluster_dims=(1, blocks, 1)) as (row, rank):
            x = T.alloc_fragment(tile.shape, dtype)
            e = T.alloc_fragment(tile.shape, "float32")
            T.annotate_layout({x: tile.layout(), e: tile.layout()})
            m = T.alloc_fragment((warps,), "float32")
            s = T.alloc_fragment((warps,), "float32")
            row_m = T.alloc_fragment((warps,), "float32")
            row_s = T.alloc_fragment((warps,), "float32")
            own = T.alloc_shared((warps, 2), "float32")
            states = T.alloc_shared((blocks * warps, 2), "float32")
            part0 = rank * warps
            T.cluster_arrive_relaxed()  # this block is there: its memory may be written to
            T.pdl_sync()
            load(A, x, tile, row, part0)
            group_state(x, e, m, s, cap)
            for i in T.Parallel(warps):
                own[i, 0] = m[i]
                own[i, 1] = s[i]
            T.sync_threads()  # copy_cluster itself waits for the threads that copy, not for those that wrote
            T.cluster_wait()  # the others are there too
            for r in T.unroll(blocks):
                T.copy_cluster(own, states[part0 : part0 + warps, :], dst_block=r)
            T.cluster_sync()
            merge_states(states, row_m, row_s)
            write(x, e, m, row_m, row_s, B, operator, tile, row, part0)

    return cluster
    # --8<-- [end:kernel]


def softmax(rows: Tensor) -> Tensor:
    """softmax of each row on a GPU with clusters.

    Args:
        rows: (N, M), N at least 1, M from 1 to CAPACITY, contiguous and 16-byte aligned; float32, float16 or
            bfloat16, on a CUDA device.

    Returns:
        tensor of the shape and dtype of `rows`.

    Raises:
        TypeError, ValueError: `rows` is not such a tensor; nothing is launched.
        RuntimeError: the device has no clusters.

    Example (on a GPU):
        softmax(torch.tensor([[0.0, 1.0, 2.0]], device="cuda"))  # [[0.0900, 0.2447, 0.6652]]
    """
    return _run("softmax", rows)


def log_softmax(rows: Tensor) -> Tensor:
    """log(softmax(rows)) as x - m - log(s), which takes no logarithm of a 0; otherwise as `softmax`."""
    return _run("log_softmax", rows)


def logsumexp(rows: Tensor) -> Tensor:
    """log sum_j exp(x_j) of each row, (N, M) to (N,); otherwise as `softmax`."""
    return _run("logsumexp", rows)


def _run(operator: str, rows: Tensor) -> Tensor:
    check(rows)
    if rows.device.type != "cuda":
        raise ValueError(f"cluster: expected a tensor on a CUDA device, got one on {rows.device}")
    if torch.cuda.get_device_capability(rows.device) < (9, 0):
        raise RuntimeError("cluster: needs a GPU with clusters, compute capability 9.0 or later")
    return run(kernel, rows, operator, options=OPTIONS)
