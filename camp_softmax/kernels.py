"""From a tensor to a kernel: which backend's, on which rows.

Backends are imported when they are first asked for, so that `import camp_softmax` needs neither tilelang
nor CUDA and starts no CUDA context.
"""

import functools
import importlib
from collections.abc import Callable
from types import ModuleType

import torch
from torch import Tensor

from camp_softmax.limits import ALIGNMENT, LARGEST

BACKENDS = ("tilelang", "cuda", "torch")


def forward(name: str, x: Tensor, dim: int, backend: str) -> Tensor:
    """An operator of the package by a kernel.

    Args:
        name: "softmax", "log_softmax" or "logsumexp".
        x: dense tensor of rank >= 1 in a dtype of limits.DTYPES, in memory, on a CPU or a CUDA device.
        dim: counted from the front.
        backend: "auto", "tilelang" or "cuda".

    Returns:
        contiguous tensor.

    Raises:
        ValueError: more rows than the kernels count, or rows too long for the backend.
        RuntimeError: the backend does not work here.
    """
    if not x.numel():
        if name == "logsumexp":
            return x.new_full([*x.shape[:dim], *x.shape[dim + 1 :]], -torch.inf)
        return torch.empty_like(x, memory_format=torch.contiguous_format)
    M = x.shape[dim]
    if backend == "auto":
        backend = _fastest(name, x, M)
    _check_count(name, x, M)
    rows = x if dim == x.dim() - 1 else x.movedim(dim, -1)
    if backend == "cuda":
        y = _backend("cuda")._launch(name, rows)
    else:
        y = _aligned(getattr(_backend("tilelang"), name), rows.contiguous())
        y = y.view(rows.shape[:-1] if name == "logsumexp" else rows.shape)
    return y if name == "logsumexp" else _from_rows(y, dim)


def backward(name: str, grad: Tensor, y: Tensor, dim: int, backend: str) -> Tensor:
    """The gradient of x, given that of y = softmax(x) or log_softmax(x): a contiguous tensor.

    Arguments and errors as for `forward`. grad has y's shape and dtype.
    """
    if not y.numel():
        return torch.empty_like(y, memory_format=torch.contiguous_format)
    M = y.shape[dim]
    if backend == "auto":
        backend = "cuda" if y.is_cuda and _cuda() else "tilelang"
    _check_count(name, y, M)
    rows, grad_rows = (tensor.movedim(dim, -1).contiguous() for tensor in (y, grad))
    if backend == "cuda":
        dx = _backend("cuda")._launch_backward(name, grad_rows, rows)
    else:
        _backend("tilelang")
        tilelang = importlib.import_module("camp_softmax.tilelang.backward")
        dx = _aligned(getattr(tilelang, name), grad_rows, rows).view(rows.shape)
    return _from_rows(dx, dim)


def backends() -> dict[str, str | None]:
    """Each backend's name with None if it works here, else the reason why it does not.

    Example:
        >>> backends()["torch"] is None
        True
    """
    reasons: dict[str, str | None] = {}
    for name in BACKENDS:
        try:
            _backend(name)
            reasons[name] = None
        except RuntimeError as error:
            reasons[name] = str(error)
    return reasons


def _check_count(name: str, x: Tensor, M: int) -> None:
    if x.numel() > LARGEST * M:
        raise ValueError(f"{name}: expected up to {LARGEST} rows, got shape {tuple(x.shape)}; split it")


def _from_rows(y: Tensor, dim: int) -> Tensor:
    return y if dim == y.dim() - 1 else y.movedim(-1, dim).contiguous()


def _fastest(name: str, x: Tensor, M: int) -> str:
    """What "auto" stands for."""
    cuda = _cuda() if x.is_cuda else None
    return "cuda" if cuda and cuda.fastest(name, M, x.dtype, x.get_device()) else "tilelang"


@functools.cache
def _cuda() -> ModuleType | None:
    """The CUDA backend, or None where it does not work: `backends()` says why."""
    try:
        return _backend("cuda")
    except RuntimeError:
        return None


def _aligned(kernel: Callable[..., Tensor], *rows: Tensor) -> Tensor:
    """A view such as flat[1:].view(64, 1024) is contiguous and starts between two vectors: a kernel that
    loads 16 bytes at once would die on it and take the CUDA context along.
    """
    aligned = (r.clone() if r.data_ptr() % ALIGNMENT else r for r in rows)
    return kernel(*(r.detach().view(-1, r.shape[-1]) for r in aligned))


@functools.cache
def _backend(name: str) -> ModuleType:
    """The module that implements a backend; a RuntimeError says why it cannot be used here."""
    if name == "torch":
        return torch
    on_gpu = torch.cuda.is_available()
    try:
        if name == "cuda":
            found = importlib.import_module("camp_softmax.cuda")
            compiler = found._runtime(on_gpu)
        else:
            found = importlib.import_module("camp_softmax.tilelang.online")
            compiler = importlib.import_module(f"camp_softmax.tilelang.{'nvcc' if on_gpu else 'cpu'}")
    except ImportError as error:
        raise RuntimeError(
            f"backend {name!r} does not work here: {error}; install it, or use backend='torch'"
        ) from error
    try:
        compiler.require_compiler()
    except RuntimeError as error:
        raise RuntimeError(f"{error}, or use backend='torch'") from error
    return found
