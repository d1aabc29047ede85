"""Kernels in CUDA C++, one .cuh file a rung, for float32."""

import torch
from torch import Tensor

try:
    from camp_softmax.cuda import runtime
except Exception as error:  # a missing wheel, or a libnvrtc that does not load
    raise ImportError(f"cuda-core cannot be imported ({type(error).__name__}: {error})") from error

SOFTMAX = {"three_pass": "softmax_three_pass", "online": "softmax_online"}  # rung: kernel in <rung>.cuh


def softmax(rows: Tensor, *, rung: str = "online") -> Tensor:
    """softmax of each row on a CUDA device.

    Args:
        rows: (N, M) contiguous float32 on a CUDA device, N and M at least 1.
        rung: "three_pass" or "online".

    Returns:
        float32 tensor of the shape of `rows`.

    Raises:
        TypeError: `rows` is not a float32 tensor.
        ValueError: it is not on a CUDA device, not two-dimensional, empty or strided, or there is no such
            rung. Nothing is launched.

    Example (on a GPU):
        softmax(torch.tensor([[0.0, 1.0, 2.0]], device="cuda"))  # [[0.0900, 0.2447, 0.6652]]
    """
    if rung not in SOFTMAX:
        raise ValueError(f"softmax: expected rung to be one of {', '.join(SOFTMAX)}, got {rung!r}")
    _check(rows)
    out = torch.empty_like(rows)
    runtime.run(runtime.HERE / f"{rung}.cuh", SOFTMAX[rung], rows, out)
    return out


def logsumexp(rows: Tensor) -> Tensor:
    """log sum_j exp(x_j) of each row on a CUDA device; (N, M) to (N,), errors as for `softmax`."""
    _check(rows)
    out = rows.new_empty(rows.shape[0])
    runtime.run(runtime.HERE / "online.cuh", "logsumexp_online", rows, out)
    return out


def _check(rows: Tensor) -> None:
    if not isinstance(rows, Tensor) or rows.layout != torch.strided or rows.is_neg():
        raise TypeError(f"cuda: expected a dense tensor in memory, got {type(rows).__name__}")
    if rows.dtype != torch.float32:
        raise TypeError(f"cuda: the CUDA kernels take float32, got {rows.dtype}; use backend='tilelang'")
    if rows.device.type != "cuda":
        raise ValueError(f"cuda: expected a tensor on a CUDA device, got one on {rows.device}")
    if rows.dim() != 2 or not 0 < rows.shape[0] < 2**31 or not rows.numel() or not rows.is_contiguous():
        raise ValueError(
            f"cuda: expected contiguous rows (N, M), 1 <= N < 2^31, M >= 1, got shape {tuple(rows.shape)}, "
            f"strides {rows.stride()}"
        )
    if not rows.data_ptr():
        raise ValueError("cuda: expected a tensor in memory, got one without storage")
