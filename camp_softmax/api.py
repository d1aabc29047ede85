"""The public operators: what comes in is checked, as torch does, and handed on.

A call that concerns nobody but the kernel goes straight to `kernels`; one that autograd, a transformation or
a mode has to see goes through `operators`, which torch knows.
"""

import operator
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.compiler import is_dynamo_compiling

from camp_softmax import kernels
from camp_softmax.kernels import BACKENDS, backends
from camp_softmax.limits import DTYPES
from camp_softmax.operators import OPERATORS

__all__ = ["backends", "log_softmax", "logsumexp", "softmax"]

NAMES = {"auto": "auto", **{name: name for name in BACKENDS}, "nvidia": "cuda"}  # the camp calls it nvidia
DEVICES = ("cpu", "cuda", "meta")  # on the first two both kinds of kernels run; the third has shapes only


def softmax(x: Tensor, dim: int = -1, *, dtype: torch.dtype | None = None, backend: str = "auto") -> Tensor:
    """exp(x_i - m) / sum_j exp(x_j - m) along `dim`, m being the maximum; as `torch.softmax`.

    Args:
        x: dense tensor of any rank and strides in float32, float16 or bfloat16, on a CPU or a CUDA device. In
            float64 it goes through torch.
        dim: the dimension that sums to 1; negative values count from the end.
        dtype: what x is converted to before; x may then have any dtype.
        backend: "tilelang", "cuda" (or "nvidia"), "torch", or "auto": cuda for tensors on a CUDA device,
            tilelang for others and for rows that are too long for the fast CUDA kernels.

    Returns:
        contiguous tensor of x's shape and device, in `dtype`, else in x's; under autocast on a CUDA device,
        as in torch, in float32. A row with NaN or +inf, or of -inf only, is NaN. It can be differentiated to
        any order, compiled by torch.compile and batched by vmap.

    Raises:
        TypeError: x is no tensor, dim no int or dtype no dtype.
        IndexError: dim is out of range.
        NotImplementedError: x is integer, complex, sparse or nested, on another device, or of a dtype that
            the backend does not take.
        ValueError: its rows are too long or too many for the backend; no such backend.
        RuntimeError: the backend does not work here; why is in the message.

    Example:
        >>> softmax(torch.tensor([[0.0, 1.0, 2.0], [1000.0, 0.0, -1000.0]]))
        tensor([[0.0900, 0.2447, 0.6652],
                [1.0000, 0.0000, 0.0000]])
    """
    return _run("softmax", x, dim, dtype, backend)


def log_softmax(
    x: Tensor, dim: int = -1, *, dtype: torch.dtype | None = None, backend: str = "auto"
) -> Tensor:
    """x_i - m - log sum_j exp(x_j - m) along `dim`: finite where the logarithm of `softmax` would be -inf.

    Arguments, result and errors as for `softmax`; as `torch.log_softmax`.

    Example:
        >>> log_softmax(torch.tensor([0.0, 1000.0]))
        tensor([-1000.,     0.])
    """
    return _run("log_softmax", x, dim, dtype, backend)


def logsumexp(
    x: Tensor, dim: int | Sequence[int] = -1, keepdim: bool = False, *, backend: str = "auto"
) -> Tensor:
    """log sum_j exp(x_j) along `dim`; as `torch.logsumexp`. Otherwise as `softmax`.

    Args:
        x: as for `softmax`; integers are converted to torch's default dtype, and complex numbers go through
            torch.
        dim: one dimension or several that are reduced away, () being all of them.
        keepdim: whether they stay, with size 1.
        backend: as for `softmax`.

    Returns:
        contiguous tensor of x's shape without `dim`. -inf for an empty sum, +inf where x has +inf and no NaN.

    Raises:
        RuntimeError: a dimension is named twice.

    Example:
        >>> logsumexp(torch.tensor([[0.0, 0.0], [0.0, -torch.inf]]))
        tensor([0.6931, 0.0000])
    """
    name = "logsumexp"
    if type(dim) is int and not keepdim and type(keepdim) is bool:
        return _run(name, x, dim, None, backend)
    if type(keepdim) is not bool:
        raise TypeError(f"{name}: expected keepdim to be True or False, got {keepdim!r}")
    _check_tensor(name, x)
    dims = _dims(name, x, dim)
    if not dims:  # of a scalar, or no dimension named: all
        dims = list(range(x.dim()))
    others = [size for d, size in enumerate(x.shape) if d not in dims]
    rows = x.movedim(dims, list(range(-len(dims), 0))).reshape(*others, -1) if len(dims) > 1 else x
    y = _run(name, rows, -1 if len(dims) != 1 else dims[0], None, backend)
    return y.reshape([1 if d in dims else size for d, size in enumerate(x.shape)]) if keepdim else y


def _run(name: str, x: Tensor, dim: int, dtype: torch.dtype | None, backend: str) -> Tensor:
    if (
        not is_dynamo_compiling()
        and dtype is None
        and type(dim) is int
        and type(backend) is str
        and _concerns_nobody(x)
        and x.dtype in DTYPES
        and -x.dim() <= dim < x.dim()
        and backend in NAMES
        and backend != "torch"
    ):
        return kernels.forward(name, x, dim % x.dim(), NAMES[backend])
    return _run_seen(name, x, dim, dtype, backend)


def _concerns_nobody(x: Tensor) -> bool:
    """Whether x is a tensor with its elements in memory, and nobody but a kernel has to see the call."""
    return (
        (type(x) is Tensor or type(x) is torch.nn.Parameter)
        and not torch._C._len_torch_function_stack()
        and not (x.requires_grad and torch.is_grad_enabled())
        and (x.is_cuda or x.is_cpu)
        and x.layout is torch.strided
        and not (x.is_nested or x.is_neg() or x._is_zerotensor())
        and not (x.is_cuda and torch._C._is_any_autocast_enabled())
        and torch._C._functorch.peek_interpreter_stack() is None
        and not torch._C._len_torch_dispatch_stack()
        and torch._C._get_tracing_state() is None
        and forward_ad._current_level < 0
    )


def _run_seen(name: str, x: Tensor, dim: int, dtype: torch.dtype | None, backend: str) -> Tensor:
    """The same where others look on: checked, converted, and an operator of torch's."""
    _check_tensor(name, x)
    (dim,) = _dims(name, x, dim, several=False) or (0,)
    if not isinstance(backend, str) or backend not in NAMES:
        raise ValueError(f"{name}: expected backend to be one of {', '.join(NAMES)}, got {backend!r}")
    x = _converted(name, x, dtype)
    if NAMES[backend] == "torch" or _for_torch(name, x, backend):
        return getattr(torch, name)(x, dim)
    if x.dim() == 0:
        y = OPERATORS[name](x.reshape(1), 0, NAMES[backend])
        return y.reshape(())
    return OPERATORS[name](x, dim, NAMES[backend])


def _check_tensor(name: str, x: Tensor) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(x).__name__}; wrap it in torch.tensor(...)")
    if x.layout != torch.strided or x.is_nested:
        raise NotImplementedError(
            f"{name}: expected a dense tensor, got layout {x.layout}, nested: {x.is_nested}; "
            "convert with x.to_dense(), or pad it"
        )
    if x.device.type not in DEVICES:
        raise NotImplementedError(
            f"{name}: expected a tensor on cpu or cuda, got one on {x.device}; move it with x.to(...)"
        )


def _dims(name: str, x: Tensor, dim: int | Sequence[int], several: bool = True) -> list[int]:
    """Counted from the front. A scalar has dimension 0 only for being asked: then there is none."""
    rank, found = x.dim(), []
    one = hasattr(dim, "__index__")
    if isinstance(dim, bool) or not (one or (several and isinstance(dim, (tuple, list)))):
        raise TypeError(f"{name}: expected dim to be an int{' or ints' * several}, got {dim!r}")
    for d in (dim,) if one else dim:  # type: ignore[union-attr]
        if isinstance(d, bool) or not hasattr(d, "__index__"):
            raise TypeError(f"{name}: expected dim to be ints, got {dim!r}")
        d, least, most = operator.index(d), min(-rank, -1), max(rank - 1, 0)
        if not least <= d <= most:
            raise IndexError(f"{name}: expected dim in [{least}, {most}], got {d}")
        if rank:
            found.append(d % rank)
    if len(set(found)) < len(found):
        raise RuntimeError(f"{name}: expected each dim once, got {dim!r}")
    return found


def _converted(name: str, x: Tensor, dtype: torch.dtype | None) -> Tensor:
    """In the dtype that torch would compute in: what is asked for, autocast's, or a float for logarithms."""
    if dtype is not None:
        if dtype is float:
            dtype = torch.float64
        if not isinstance(dtype, torch.dtype):
            raise TypeError(f"{name}: expected dtype to be a torch.dtype, got {dtype!r}")
    elif x.dtype in DTYPES and x.device.type == "cuda" and torch.is_autocast_enabled("cuda"):
        dtype = torch.float32
    elif name == "logsumexp" and not (x.is_floating_point() or x.is_complex()):
        dtype = torch.get_default_dtype()
    if dtype is not None:
        x = x.to(dtype)
    if name != "logsumexp" and not x.is_floating_point():
        raise NotImplementedError(
            f"{name}: expected a floating tensor, got {x.dtype}; convert with dtype=torch.float32"
        )
    return x


def _for_torch(name: str, x: Tensor, backend: str) -> bool:
    """Whether "auto" leaves x to torch: in a dtype that no kernel takes."""
    if x.dtype in DTYPES:
        return False
    if backend == "auto" and (x.dtype == torch.float64 or (name == "logsumexp" and x.is_complex())):
        return True
    takes = ", ".join(str(dtype) for dtype in DTYPES)
    raise NotImplementedError(
        f"{name}: backend {backend!r} takes {takes}, got {x.dtype}; convert with x.to(...), or use "
        "backend='torch'"
    )
