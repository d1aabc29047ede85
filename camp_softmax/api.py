"""The public operator: what comes in is checked and laid out as rows, then a backend's kernel runs.

Backends are imported when they are first asked for, so that `import camp_softmax` needs neither tilelang
nor CUDA and starts no CUDA context.
"""

import importlib
import operator
from types import ModuleType

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.forward_ad import unpack_dual

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
BACKENDS = ("tilelang", "cuda", "torch")
ALIASES = {"nvidia": "cuda"}  # the camp's name
LARGEST = 2**31 - 1  # rows, counted in 32 bits by the kernels
ALIGNMENT = 16  # bytes, what the kernels' vector loads assume of a tensor's address


def softmax(x: Tensor, dim: int = -1, *, backend: str = "auto") -> Tensor:
    """exp(x_i - m) / sum_j exp(x_j - m) along `dim`, m being the maximum; as `torch.softmax`.

    Args:
        x: tensor of rank >= 1 in float32, float16 or bfloat16, on a CPU or a CUDA device, of any strides.
        dim: the dimension that sums to 1; negative values count from the end.
        backend: "tilelang", "cuda" (or "nvidia"; float32 on a CUDA device), "torch", or "auto": tilelang.

    Returns:
        contiguous tensor of x's shape, dtype and device. A row with NaN or +inf, or of -inf only, is NaN.

    Raises:
        TypeError: x is no tensor, is sparse, or has a dtype that the backend does not take; dim is no int.
        IndexError: dim is out of range.
        ValueError: x has rank 0 or is on a device that the backend does not run on; no such backend.
        RuntimeError: the backend does not work here (why is in the message), or x requires grad, which the
            kernels do not have yet.

    Example:
        >>> softmax(torch.tensor([[0.0, 1.0, 2.0], [1000.0, 0.0, -1000.0]]))
        tensor([[0.0900, 0.2447, 0.6652],
                [1.0000, 0.0000, 0.0000]])
    """
    dim, backend = _check("softmax", x, dim, backend)
    if backend == "torch":
        return torch.softmax(x, dim)
    if x.numel() == 0:
        return torch.empty_like(x, memory_format=torch.contiguous_format)
    y = _backend(backend).softmax(_rows(x, dim))
    return y.view(x.movedim(dim, -1).shape).movedim(-1, dim).contiguous()


def logsumexp(x: Tensor, dim: int = -1, *, backend: str = "auto") -> Tensor:
    """log sum_j exp(x_j) along `dim`; as `torch.logsumexp`. Arguments and errors as for `softmax`.

    Returns:
        contiguous tensor of x's shape without `dim`. -inf for an empty sum, +inf where x has +inf and no NaN.

    Example:
        >>> logsumexp(torch.tensor([[0.0, 0.0], [0.0, -torch.inf]]))
        tensor([0.6931, 0.0000])
    """
    dim, backend = _check("logsumexp", x, dim, backend)
    if backend == "torch":
        return torch.logsumexp(x, dim)
    shape = x.movedim(dim, -1).shape[:-1]
    if x.numel() == 0:
        return x.new_full(shape, -torch.inf)
    return _backend(backend).logsumexp(_rows(x, dim)).view(shape)


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


def _check(name: str, x: Tensor, dim: int, backend: str) -> tuple[int, str]:
    """Raises for what no kernel may see; returns dim counted from the front and the backend to use."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(x).__name__}; wrap it in torch.tensor(...)")
    if isinstance(dim, bool) or not hasattr(dim, "__index__"):
        raise TypeError(f"{name}: expected dim to be an int, got {dim!r}")
    if x.layout != torch.strided or x.is_nested:
        raise TypeError(f"{name}: expected a dense tensor, got layout {x.layout}, nested: {x.is_nested}")
    if x.dim() == 0:
        raise ValueError(f"{name}: expected a tensor of rank >= 1, got a scalar; use x.reshape(1)")
    dim = operator.index(dim)
    if not -x.dim() <= dim < x.dim():
        raise IndexError(f"{name}: expected dim in [{-x.dim()}, {x.dim() - 1}], got {dim}")
    names = ["auto", *BACKENDS, *ALIASES]
    if backend not in names:
        raise ValueError(f"{name}: expected backend to be one of {', '.join(names)}, got {backend!r}")
    if not x.is_floating_point():
        raise TypeError(f"{name}: expected a floating tensor, got {x.dtype}; convert with x.float()")
    backend = "tilelang" if backend == "auto" else ALIASES.get(backend, backend)
    if backend != "torch":
        _check_kernel_input(name, x, backend)
        if x.numel() > LARGEST * x.shape[dim]:
            raise ValueError(f"{name}: expected up to {LARGEST} rows, got shape {tuple(x.shape)}; split it")
    return dim % x.dim(), backend


def _check_kernel_input(name: str, x: Tensor, backend: str) -> None:
    dtypes = DTYPES if backend == "tilelang" else DTYPES[:1]
    if x.dtype not in dtypes:
        takes = ", ".join(str(dtype) for dtype in dtypes)
        raise TypeError(f"{name}: backend {backend!r} takes {takes}, got {x.dtype}; convert with x.to(...)")
    devices = ("cpu", "cuda") if backend == "tilelang" else ("cuda",)
    if isinstance(x, FakeTensor):
        raise ValueError(f"{name}: backend {backend!r} needs a tensor in memory, got one without storage")
    if x.device.type not in devices:
        raise ValueError(
            f"{name}: backend {backend!r} runs on {' and '.join(devices)}, got a tensor on {x.device}"
        )
    if (x.requires_grad and torch.is_grad_enabled()) or unpack_dual(x).tangent is not None:
        raise RuntimeError(
            f"{name}: backend {backend!r} has no derivative yet; call it on x.detach() or under "
            "torch.no_grad(), or use backend='torch'"
        )


def _rows(x: Tensor, dim: int) -> Tensor:
    """x as an (N, M) matrix whose rows run along `dim`: contiguous and aligned, copied only where needed.

    A view such as flat[1:].view(64, 1024) is contiguous and starts between two vectors: a kernel that loads
    16 bytes at once would die on it and take the CUDA context along.
    """
    rows = x.detach().resolve_neg().movedim(dim, -1).reshape(-1, x.shape[dim]).contiguous()
    return rows.clone() if rows.data_ptr() % ALIGNMENT else rows


def _backend(name: str) -> ModuleType:
    """The module that implements a backend; a RuntimeError says why it cannot be used here."""
    if name == "torch":
        return torch
    module = "camp_softmax.tilelang.online" if name == "tilelang" else "camp_softmax.cuda"
    if name == "cuda" and not torch.cuda.is_available():
        raise RuntimeError("backend 'cuda' needs a CUDA device, and torch sees none; use backend='tilelang'")
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise RuntimeError(
            f"backend {name!r} does not work here: {error}; install it, or use backend='torch'"
        ) from error
    if name == "tilelang" and not torch.cuda.is_available():
        importlib.import_module("camp_softmax.tilelang.cpu").require_compiler()
    return found
