"""What every kernel takes, in either language; the API sees to it, and each backend checks it again."""

import torch
from torch import Tensor

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
LARGEST = 2**31 - 1  # rows, or columns where they are known at launch only: counted in 32 bits
ALIGNMENT = 16  # bytes; vector loads assume it, and one misaligned address kills the CUDA context


def check_in_memory(what: str, tensor: Tensor) -> None:
    """Refuses what has no elements in memory that a kernel could read as they stand.

    Raises:
        TypeError: no tensor, a sparse one, or a lazily negated view.
        ValueError: a tensor without storage, such as a fake or a meta tensor.

    Example:
        >>> check_in_memory("softmax", torch.zeros(2, device="meta"))
        Traceback (most recent call last):
        ValueError: softmax: expected a tensor in memory, got one without storage
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{what}: expected a tensor, got {type(tensor).__name__}")
    if tensor.layout != torch.strided or tensor.is_neg():
        raise TypeError(f"{what}: expected a dense tensor in memory, got a sparse one or a lazy view")
    if tensor.numel() and (tensor.device.type == "meta" or not tensor.data_ptr()):
        raise ValueError(f"{what}: expected a tensor in memory, got one without storage")
