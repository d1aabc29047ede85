"""The public operator: what comes in is checked and laid out as rows, then a backend's kernel runs.

Backends are imported when they are first asked for, so that `import camp_softmax` needs neither tilelang
nor CUDA and starts no CUDA context.
"""

import functools
import importlib
import operator
from types import ModuleType

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad

from camp_softmax.limits import ALIGNMENT, DTYPES, LARGEST

BACKENDS = ("tilelang", "cuda", "torch")
NAMES = {"auto": "auto", **{name: name for name in BACKENDS}, "nvidia": "cuda"}  # the camp calls it nvidia
DEVICES = ("cpu", "cuda")  # on which both kinds of kernels run


def softmax(x: Tensor, dim: int = -1, *, backend: str = "auto") -> Tensor:
    """exp(x_i - m) / sum_j exp(x_j - m) along `dim`, m being the maximum; as `torch.softmax`.

    Args:
        x: tensor of rank >= 1 in float32, float16 or bfloat16, on a CPU or a CUDA device, of any strides.
        dim: the dimension that sums to 1; negative values count from the end.
        backend: "tilelang", "cuda" (or "nvidia"), "torch", or "auto": cuda for tensors on a CUDA device,
            tilelang for others and for rows that are too long for the fast CUDA kernels.

    Returns:
        contiguous tensor of x's shape, dtype and device. A row with NaN or +inf, or of -inf only, is NaN.

    Raises:
        TypeError: x is no tensor, is sparse, or has a dtype that the backend does not take; dim is no int.
        IndexError: dim is out of range.
        ValueError: x has rank 0 or is on a device that the backend does not run on, or its rows are too long
            or too many for it; no such backend.
        RuntimeError: the backend does not work here (why is in the message), or x requires grad, which the
            kernels do not have yet.

    Example:
        >>> softmax(torch.tensor([[0.0, 1.0, 2.0], [1000.0, 0.0, -1000.0]]))
        tensor([[0.0900, 0.2447, 0.6652],
                [1.0000, 0.0000, 0.0000]])
    """
    return _run("softmax", x, dim, backend)


def log_softmax(x: Tensor, dim: int = -1, *, backend: str = "auto") -> Tensor:
    """x_i - m - log sum_j exp(x_j - m) along `dim`: finite where the logarithm of `softmax` would be -inf.

    Arguments, result and errors as for `softmax`; as `torch.log_softmax`.

    Example:
        >>> log_softmax(torch.tensor([0.0, 1000.0]))
        tensor([-1000.,     0.])
    """
    return _run("log_softmax", x, dim, backend)


def logsumexp(x: Tensor, dim: int = -1, *, backend: str = "auto") -> Tensor:
    """log sum_j exp(x_j) along `dim`; as `torch.logsumexp`. Arguments and errors as for `softmax`.

    Returns:
        contiguous tensor of x's shape without `dim`. -inf for an empty sum, +inf where x has +inf and no NaN.

    Example:
        >>> logsumexp(torch.tensor([[0.0, 0.0], [0.0, -torch.inf]]))
        tensor([0.6931, 0.0000])
    """
    return _run("logsumexp", x, dim, backend)


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


def _run(name: str, x: Tensor, dim: int, backend: str) -> Tensor:
    dim, backend = _check(name, x, dim, backend)
    if backend == "torch":
        return getattr(torch, name)(x, dim)
    reduced = name == "logsumexp"
    if x.numel() == 0:
        if reduced:
            return x.new_full([*x.shape[:dim], *x.shape[dim + 1 :]], -torch.inf)
        return torch.empty_like(x, memory_format=torch.contiguous_format)
    last = dim == x.dim() - 1
    rows = x.detach() if x.requires_grad else x
    if not (last and rows.is_contiguous() and not rows.is_neg()):
        rows = rows.movedim(dim, -1).resolve_neg().contiguous()
    y = _cuda(name, rows) if backend == "cuda" else _tilelang(name, rows)
    return y if last or reduced else y.movedim(-1, dim).contiguous()


def _check(name: str, x: Tensor, dim: int, backend: str) -> tuple[int, str]:
    """Raises for what no kernel may see; returns dim counted from the front and the backend to use."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(x).__name__}; wrap it in torch.tensor(...)")
    if type(dim) is not int:
        if isinstance(dim, bool) or not hasattr(dim, "__index__"):
            raise TypeError(f"{name}: expected dim to be an int, got {dim!r}")
        dim = operator.index(dim)
    if x.layout != torch.strided or x.is_nested:
        raise TypeError(f"{name}: expected a dense tensor, got layout {x.layout}, nested: {x.is_nested}")
    rank = x.dim()
    if rank == 0:
        raise ValueError(f"{name}: expected a tensor of rank >= 1, got a scalar; use x.reshape(1)")
    if not -rank <= dim < rank:
        raise IndexError(f"{name}: expected dim in [{-rank}, {rank - 1}], got {dim}")
    if not isinstance(backend, str) or backend not in NAMES:
        raise ValueError(f"{name}: expected backend to be one of {', '.join(NAMES)}, got {backend!r}")
    if not x.is_floating_point():
        raise TypeError(f"{name}: expected a floating tensor, got {x.dtype}; convert with x.float()")
    M = x.shape[dim]
    backend = _fastest(name, x, M) if backend == "auto" else NAMES[backend]
    if backend != "torch":
        _check_kernel_input(name, x, backend)
        if x.numel() > LARGEST * M:
            raise ValueError(f"{name}: expected up to {LARGEST} rows, got shape {tuple(x.shape)}; split it")
    return dim % rank, backend


def _check_kernel_input(name: str, x: Tensor, backend: str) -> None:
    if x.dtype not in DTYPES:
        takes = ", ".join(str(dtype) for dtype in DTYPES)
        raise TypeError(f"{name}: backend {backend!r} takes {takes}, got {x.dtype}; convert with x.to(...)")
    if isinstance(x, FakeTensor):
        raise ValueError(f"{name}: backend {backend!r} needs a tensor in memory, got one without storage")
    if x.device.type not in DEVICES:
        runs_on = " and ".join(DEVICES)
        raise ValueError(f"{name}: backend {backend!r} runs on {runs_on}, got a tensor on {x.device}")
    dual = forward_ad._current_level >= 0 and forward_ad.unpack_dual(x).tangent is not None
    if dual or (x.requires_grad and torch.is_grad_enabled()):
        raise RuntimeError(
            f"{name}: backend {backend!r} has no derivative yet; call it on x.detach() or under "
            "torch.no_grad(), or use backend='torch'"
        )


def _fastest(name: str, x: Tensor, M: int) -> str:
    """What "auto" stands for."""
    if not x.is_cuda or isinstance(x, FakeTensor):
        return "tilelang"
    try:
        cuda = _backend("cuda")
    except RuntimeError:  # no cuda-core: `backends()` says so
        return "tilelang"
    return "cuda" if cuda.fastest(name, M, x.dtype, x.get_device()) else "tilelang"


def _cuda(name: str, rows: Tensor) -> Tensor:
    return _backend("cuda")._launch(name, rows)


def _tilelang(name: str, rows: Tensor) -> Tensor:
    """A view such as flat[1:].view(64, 1024) is contiguous and starts between two vectors: a kernel that
    loads 16 bytes at once would die on it and take the CUDA context along.
    """
    aligned = rows.clone() if rows.data_ptr() % ALIGNMENT else rows
    y = getattr(_backend("tilelang"), name)(aligned.view(-1, rows.shape[-1]))
    return y.view(rows.shape[:-1] if name == "logsumexp" else rows.shape)


@functools.cache
def _backend(name: str) -> ModuleType:
    """The module that implements a backend; a RuntimeError says why it cannot be used here."""
    if name == "torch":
        return torch
    module = "camp_softmax.tilelang.online" if name == "tilelang" else "camp_softmax.cuda"
    try:
        found = importlib.import_module(module)
        if name == "cuda" and torch.cuda.is_available():
            found._runtime(on_gpu=True)
    except ImportError as error:
        raise RuntimeError(
            f"backend {name!r} does not work here: {error}; install it, or use backend='torch'"
        ) from error
    if not torch.cuda.is_available():
        cpu = {"tilelang": "camp_softmax.tilelang.cpu", "cuda": "camp_softmax.cuda.host"}[name]
        importlib.import_module(cpu).require_compiler()
    return found
