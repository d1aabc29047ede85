"""The usual softmax in Triton: one program holds a whole row, padded to a power of two, in registers."""

import torch
import triton
import triton.language as tl
from torch import Tensor

LONGEST = 2**17  # padded columns; what is longer spills, and takes minutes to compile


@triton.jit
def kernel(x, y, M, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * M
    columns = tl.arange(0, BLOCK)
    row = tl.load(x + start + columns, mask=columns < M, other=-float("inf")).to(tl.float32)
    e = tl.exp(row - tl.max(row, axis=0))
    tl.store(y + start + columns, e / tl.sum(e, axis=0), mask=columns < M)


def softmax(rows: Tensor) -> Tensor:
    """softmax of each row of (N, M) contiguous rows on a CUDA device; ValueError if they are too long."""
    N, M = rows.shape
    block = triton.next_power_of_2(M)
    if block > LONGEST:
        raise ValueError(f"triton: one program holds a row of up to {LONGEST} columns, got {M}")
    out = torch.empty_like(rows)
    kernel[(N,)](rows, out, M, BLOCK=block, num_warps=min(32, max(4, block // 512)))
    return out
