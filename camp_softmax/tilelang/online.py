"""Rung 2: online softmax in TileLang, the tutorial's kernel.

From the rung below: the first two of three scans become one, because a running state (m, s)
replaces the finished maximum. Moves 3 elements per element: read, read again, write. Stops
winning where a row fits on chip: then one read is enough (rung 3).
"""

from collections.abc import Callable

import tilelang.language as T
from torch import Tensor
from tvm.tirx import PrimFunc

from camp_softmax.tilelang.rows import LOG2E, LOWEST, check, run


# --8<-- [start:load]
@T.macro
def load_tile(A, tile, row0, col0):
    """tile = A[row0:, col0:]; outside A, -inf: neither max nor sum sees it."""
    N, M = A.shape
    for i, j in T.Parallel(*tile.shape):
        if row0 + i < N and col0 + j < M:
            tile[i, j] = A[row0 + i, col0 + j]
        else:
            tile[i, j] = -T.infinity("float32")
    # --8<-- [end:load]


# --8<-- [start:merge]
@T.macro
def merge_tile(tile, m, s, cap):
    """(m, s) = the state so far and this tile's, merged. Overwrites tile."""
    rows, columns = tile.shape
    tile_max = T.alloc_fragment((rows,), "float32")
    tile_sum = T.alloc_fragment((rows,), "float32")
    m_new = T.alloc_fragment((rows,), "float32")
    T.reduce_max(tile, tile_max, dim=1)
    for i in T.Parallel(rows):
        m_new[i] = T.min(T.max(m[i], tile_max[i]), cap)
    for i, j in T.Parallel(rows, columns):
        tile[i, j] = T.exp2((tile[i, j] - m_new[i]) * LOG2E)
    T.reduce_sum(tile, tile_sum, dim=1)
    for i in T.Parallel(rows):
        s[i] = s[i] * T.exp2((m[i] - m_new[i]) * LOG2E) + tile_sum[i]
        m[i] = m_new[i]
    # --8<-- [end:merge]


# --8<-- [start:softmax]
def softmax_kernel(M: int, dtype: str, block_n=16, block_m=256, threads=256):
    """B = softmax(A), row by row: N rows, known at launch, of M columns."""
    N = T.dynamic("N")

    @T.prim_func
    def softmax_online(A: T.Tensor((N, M), dtype), B: T.Tensor((N, M), dtype)):
        with T.Kernel(T.ceildiv(N, block_n), threads=threads) as pid:
            tile = T.alloc_fragment((block_n, block_m), "float32")
            m = T.alloc_fragment((block_n,), "float32")  # maximum so far
            s = T.alloc_fragment((block_n,), "float32")  # sum of exp(x - m)
            row0 = pid * block_n
            T.fill(m, LOWEST)
            T.fill(s, 0)
            for k in T.Serial(T.ceildiv(M, block_m)):  # a chain: one by one
                load_tile(A, tile, row0, k * block_m)
                merge_tile(tile, m, s, T.infinity("float32"))
            for k in T.Serial(T.ceildiv(M, block_m)):  # m, s final: reread
                col0 = k * block_m
                load_tile(A, tile, row0, col0)
                for i, j in T.Parallel(block_n, block_m):
                    if row0 + i < N and col0 + j < M:
                        e = T.exp2((tile[i, j] - m[i]) * LOG2E)
                        B[row0 + i, col0 + j] = e / s[i]

    return softmax_online
    # --8<-- [end:softmax]


def log_softmax_kernel(M: int, dtype: str, block_n=16, block_m=256, threads=256):
    """B = log_softmax(A): the second scan writes x - m - log(s), which takes no logarithm of a 0."""
    N = T.dynamic("N")

    @T.prim_func
    def log_softmax_online(A: T.Tensor((N, M), dtype), B: T.Tensor((N, M), dtype)):
        with T.Kernel(T.ceildiv(N, block_n), threads=threads) as pid:
            tile = T.alloc_fragment((block_n, block_m), "float32")
            m = T.alloc_fragment((block_n,), "float32")
            s = T.alloc_fragment((block_n,), "float32")
            row0 = pid * block_n
            T.fill(m, LOWEST)
            T.fill(s, 0)
            for k in T.Serial(T.ceildiv(M, block_m)):
                load_tile(A, tile, row0, k * block_m)
                merge_tile(tile, m, s, T.infinity("float32"))
            for i in T.Parallel(block_n):
                s[i] = T.log(s[i])
            for k in T.Serial(T.ceildiv(M, block_m)):
                col0 = k * block_m
                load_tile(A, tile, row0, col0)
                for i, j in T.Parallel(block_n, block_m):
                    if row0 + i < N and col0 + j < M:
                        B[row0 + i, col0 + j] = tile[i, j] - m[i] - s[i]

    return log_softmax_online


def logsumexp_kernel(M: int, dtype: str, block_n=16, block_m=256, threads=256):
    """B = logsumexp(A) of each row: the first scan alone.

    The maximum is capped at the largest finite float: x - m is then +inf where x is, never inf - inf, and
    the sum comes out +inf as it must. Softmax has no cap, since there the same row must come out NaN.
    """
    N = T.dynamic("N")

    @T.prim_func
    def logsumexp_online(A: T.Tensor((N, M), dtype), B: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, block_n), threads=threads) as pid:
            tile = T.alloc_fragment((block_n, block_m), "float32")
            m = T.alloc_fragment((block_n,), "float32")
            s = T.alloc_fragment((block_n,), "float32")
            row0 = pid * block_n
            T.fill(m, LOWEST)
            T.fill(s, 0)
            for k in T.Serial(T.ceildiv(M, block_m)):
                load_tile(A, tile, row0, k * block_m)
                merge_tile(tile, m, s, T.max_value("float32"))
            for i in T.Parallel(block_n):
                if row0 + i < N:
                    B[row0 + i] = m[i] + T.log(s[i])

    return logsumexp_online


def softmax(rows: Tensor, *, block_n=16, block_m=256, threads=256) -> Tensor:
    """softmax of each row, on the device where the rows are.

    Args:
        rows: (N, M), N and M at least 1, contiguous and 16-byte aligned; float32, float16 or bfloat16. The
            state is float32 whatever the dtype. No gradient flows through.
        block_n: rows a block.
        block_m: columns a tile, a power of two; any gives the same result up to rounding.
        threads: threads a block.

    Returns:
        tensor of the shape and dtype of `rows`.

    Raises:
        TypeError, ValueError: `rows` is not such a tensor, block_m is no power of two, or the tile is
            too large for the threads; nothing is launched.

    Example:
        >>> import torch
        >>> softmax(torch.tensor([[0.0, 1.0, 2.0]]), block_m=2)
        tensor([[0.0900, 0.2447, 0.6652]])
    """
    return _run(softmax_kernel, rows, block_n, block_m, threads)


def log_softmax(rows: Tensor, *, block_n=16, block_m=256, threads=256) -> Tensor:
    """log(softmax(rows)); arguments, result and errors as for `softmax`.

    Example:
        >>> import torch
        >>> log_softmax(torch.tensor([[0.0, 1000.0]]))
        tensor([[-1000.,     0.]])
    """
    return _run(log_softmax_kernel, rows, block_n, block_m, threads)


def logsumexp(rows: Tensor, *, block_n=16, block_m=256, threads=256) -> Tensor:
    """log sum_j exp(x_j) of each row; arguments and errors as for `softmax`.

    Returns:
        (N,) tensor of the dtype of `rows`.

    Example:
        >>> import torch
        >>> logsumexp(torch.tensor([[0.0, 0.0]]))
        tensor([0.6931])
    """
    return _run(logsumexp_kernel, rows, block_n, block_m, threads)


def _run(factory: Callable[..., PrimFunc], rows: Tensor, block_n: int, block_m: int, threads: int) -> Tensor:
    check(rows)
    _check_blocks(block_n, block_m, threads)
    return run(factory, rows, block_n, block_m, threads)


def _check_blocks(block_n: int, block_m: int, threads: int) -> None:
    for name, value in (("block_n", block_n), ("block_m", block_m), ("threads", threads)):
        if type(value) is not int:
            raise TypeError(f"expected {name} to be an int, got {value!r}")
    if block_m < 1 or block_m & (block_m - 1):  # a row is reduced by exchanges between 2^k threads
        raise ValueError(f"expected block_m to be a power of two, got {block_m}")
    if threads not in range(32, 1025, 32):
        raise ValueError(f"expected threads to be a multiple of 32 up to 1024, got {threads}")
    if not 1 <= block_n * block_m <= 128 * threads:  # what fits the registers of the threads
        raise ValueError(
            f"expected a tile of 1 to {128 * threads} elements for {threads} threads, "
            f"got block_n={block_n}, block_m={block_m}"
        )
