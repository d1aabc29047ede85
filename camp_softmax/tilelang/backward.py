"""The gradient of softmax and of log_softmax in TileLang: dx from y, the result, and dy, the gradient of y.

As in online.py, a row is scanned twice, tile by tile; what is carried is one sum. Moves 5 elements per
element: read y and dy; read both again, write. cuda/backward.cuh keeps them in registers and moves 3.
"""

import tilelang.language as T
import torch
from torch import Tensor

from camp_softmax.tilelang.rows import LOG2E, check, kernel


# --8<-- [start:load]
@T.macro
def load_tile(A, tile, row0, col0):
    """tile = A[row0:, col0:]; outside A, 0, which no sum sees."""
    N, M = A.shape
    for i, j in T.Parallel(*tile.shape):
        if row0 + i < N and col0 + j < M:
            tile[i, j] = A[row0 + i, col0 + j]
        else:
            tile[i, j] = 0
    # --8<-- [end:load]


# --8<-- [start:kernel]
def backward_kernel(M: int, dtype: str, operator: str, block_n=16, block_m=256, threads=256):
    """DX = y * (dy - sum(y * dy)) for softmax, dy - exp(y) * sum(dy) for log_softmax, row by row."""
    N = T.dynamic("N")

    @T.prim_func
    def backward(DY: T.Tensor((N, M), dtype), DX: T.Tensor((N, M), dtype), Y: T.Tensor((N, M), dtype)):
        with T.Kernel(T.ceildiv(N, block_n), threads=threads) as pid:
            y = T.alloc_fragment((block_n, block_m), "float32")
            dy = T.alloc_fragment((block_n, block_m), "float32")
            tile_sum = T.alloc_fragment((block_n,), "float32")
            s = T.alloc_fragment((block_n,), "float32")
            row0 = pid * block_n
            T.fill(s, 0)
            for k in T.Serial(T.ceildiv(M, block_m)):
                load_tile(DY, dy, row0, k * block_m)
                if operator == "softmax":
                    load_tile(Y, y, row0, k * block_m)
                    for i, j in T.Parallel(block_n, block_m):
                        dy[i, j] = y[i, j] * dy[i, j]
                T.reduce_sum(dy, tile_sum, dim=1)
                for i in T.Parallel(block_n):
                    s[i] += tile_sum[i]
            for k in T.Serial(T.ceildiv(M, block_m)):  # s is final: reread
                col0 = k * block_m
                load_tile(DY, dy, row0, col0)
                load_tile(Y, y, row0, col0)
                for i, j in T.Parallel(block_n, block_m):
                    if row0 + i < N and col0 + j < M:
                        if operator == "softmax":
                            DX[row0 + i, col0 + j] = y[i, j] * (dy[i, j] - s[i])
                        else:
                            e = T.exp2(y[i, j] * LOG2E)
                            DX[row0 + i, col0 + j] = dy[i, j] - e * s[i]

    return backward
    # --8<-- [end:kernel]


def softmax(dy: Tensor, y: Tensor) -> Tensor:
    """The gradient of x where y = softmax(x), row by row, on the device where the rows are.

    Args:
        dy: the gradient of y; (N, M), N and M at least 1, contiguous and 16-byte aligned; float32, float16
            or bfloat16. The sum is float32 whatever the dtype.
        y: of the same shape, dtype and device.

    Returns:
        tensor of that shape and dtype.

    Raises:
        TypeError, ValueError: these are not such tensors; nothing is launched.

    Example:
        >>> softmax(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.5, 0.5]]))
        tensor([[ 0.2500, -0.2500]])
    """
    return _run("softmax", dy, y)


def log_softmax(dy: Tensor, y: Tensor) -> Tensor:
    """The same where y = log_softmax(x).

    Example:
        >>> log_softmax(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.5, 0.5]]).log())
        tensor([[ 0.5000, -0.5000]])
    """
    return _run("log_softmax", dy, y)


def _run(operator: str, dy: Tensor, y: Tensor) -> Tensor:
    check(y)
    if y.dtype == torch.bfloat16 and y.device.type == "cpu":  # exact, and rounded once: see cpu.py
        return _run(operator, dy.float(), y.float()).bfloat16()
    dtype = str(y.dtype).removeprefix("torch.")
    compiled = kernel(backward_kernel, y.shape[1], dtype, operator, device=y.device, options=())
    dx = torch.empty_like(y)
    compiled(dy, dx, y)
    return dx
