"""What all rungs share: constants, and the way from rows through a compiled kernel to the result."""

import functools
from collections.abc import Callable, Hashable

import tilelang.language as T
import torch
from torch import Tensor
from tvm.tirx import PrimFunc

from camp_softmax.limits import DTYPES
from camp_softmax.tilelang import Kernel, build

LOG2E = 1.4426950408889634  # log2(e): exp(x) = exp2(x * LOG2E), and exp2 is one instruction
LOWEST = T.min_value("float32")  # the neutral maximum; -inf would turn -inf - (-inf) into NaN


def check(rows: Tensor) -> None:
    """Raises a TypeError or ValueError unless `rows` is a matrix that the kernels take."""
    if not isinstance(rows, Tensor):
        raise TypeError(f"expected a tensor of rows, got {type(rows).__name__}")
    if rows.dtype not in DTYPES:
        raise TypeError(f"expected float32, float16 or bfloat16 rows, got {rows.dtype}")
    if rows.dim() != 2:
        raise ValueError(f"expected rows (N, M), got shape {tuple(rows.shape)}")


def run(
    factory: Callable[..., PrimFunc], rows: Tensor, *blocks: Hashable, options: tuple[str, ...] = ()
) -> Tensor:
    """The result of a kernel for rows that `check` has passed.

    Args:
        factory: makes the program from M, the dtype's name and `blocks`; the result is its second tensor.
        rows: (N, M); what else the kernel expects of it is checked when it is called.
        blocks: what else is compiled in, such as how the rows are cut.
        options: switches of TileLang's CUDA compiler that are to be on.
    """
    if rows.dtype == torch.bfloat16 and rows.device.type == "cpu":  # exact, and rounded once: see cpu.py
        return run(factory, rows.float(), *blocks).bfloat16()
    dtype = str(rows.dtype).removeprefix("torch.")
    compiled = kernel(factory, rows.shape[1], dtype, *blocks, device=rows.device, options=options)
    out = rows.new_empty(rows.shape[: len(compiled.buffers[1].shape)])
    compiled(rows, out)
    return out


@functools.cache
def kernel(
    factory: Callable[..., PrimFunc],
    M: int,
    dtype: str,
    *blocks: Hashable,
    device: torch.device,
    options: tuple[str, ...],
) -> Kernel:
    """Compiled once for each row length, dtype and device, whatever the number of rows."""
    return build(factory(M, dtype, *blocks), device, pass_configs=dict.fromkeys(options, True))
