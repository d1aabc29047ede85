"""The candidates: our kernels and what others made for the same job, each by name.

A candidate takes (N, M) contiguous rows, or for the gradient (2, N, M), that of y and y itself, and returns a
new tensor. What does not import here, or has no such
operator, is missing, with the reason; what does not take a dtype or a length says so when it is called.
"""

import functools
import importlib
import os
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Call = Callable[[Tensor], Tensor]

OPERATORS = ("softmax", "log_softmax", "logsumexp", "softmax_backward")
CUDA_RUNGS = ("three_pass", "online", "single_read", "cluster")
TILELANG_RUNGS = ("online", "single_read", "cluster")
VARIANT = "variant."  # what the names of variants begin with
ON_CPU = ("copy", "torch", "tilelang.online")  # what runs there by default
OF_GRADIENT = ("copy", "torch", "torch.compile", "quack", "auto")  # those that have one


def load(name: str, operator: str, device: str) -> Call:
    """The candidate, ready to be called for one shape and dtype.

    Args:
        name: a key of LOADERS, or "variant." and a key of variants.VARIANTS.
        operator: one of OPERATORS.
        device: "cuda" or "cpu".

    Raises:
        Exception: of any type, if it is missing here; `reason` words it.

    Example:
        >>> load("torch", "softmax", "cpu")(torch.zeros(1, 2))
        tensor([[0.5000, 0.5000]])
    """
    if name.startswith(VARIANT):
        _require(device == "cuda", "needs a CUDA device")
        return importlib.import_module("camp_softmax.bench.variants").call(name.removeprefix(VARIANT))
    return LOADERS[name](operator, device)


def missing(names: Sequence[str], operator: str, device: str) -> dict[str, str]:
    """Which of these candidates cannot be had here, each with the reason.

    Example:
        >>> missing(["torch", "cuda.online"], "softmax", "cpu")
        {'cuda.online': 'needs a CUDA device'}
    """
    reasons = {}
    for name in names:
        try:
            load(name, operator, device)
        except Exception as error:  # a broken installation raises what it likes
            reasons[name] = reason(error)
    return reasons


def reason(error: Exception) -> str:
    """An error in one line of at most 200 characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else text[:199] + "…"


def _copy(operator: str, device: str) -> Call:
    return torch.clone


def _eager(operator: str, device: str) -> Call:
    if operator == "softmax_backward":
        return lambda pair: torch.ops.aten._softmax_backward_data(*pair, -1, pair.dtype)
    return functools.partial(getattr(torch, operator), dim=-1)


def _compiled(operator: str, device: str) -> Call:
    # A pool of compiler processes pays off for models, not for one kernel.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    torch.compiler.reset()  # after a few shapes of one function it would fall back to eager
    eager = _eager(operator, device)
    return torch.compile(lambda rows: eager(rows), dynamic=False)


def _triton(operator: str, device: str) -> Call:
    _require(operator == "softmax", f"the kernel here has no {operator}")
    _require(device == "cuda", "needs a CUDA device")
    return importlib.import_module("camp_softmax.bench.triton_row").softmax


def _liger(operator: str, device: str) -> Call:
    _require(operator == "softmax", f"Liger has no {operator}")
    _require(device == "cuda", "needs a CUDA device")
    return importlib.import_module("liger_kernel.ops.softmax").LigerSoftmaxFunction.apply


def _quack(operator: str, device: str) -> Call:
    names = {"softmax": "softmax_fwd", "softmax_backward": "softmax_bwd"}
    _require(operator in names, f"quack has no {operator}")
    _require(device == "cuda", "needs a CUDA device")
    kernel = getattr(importlib.import_module("quack.softmax"), names[operator])
    return kernel if operator == "softmax" else lambda pair: kernel(*pair)


def _auto(operator: str, device: str) -> Call:
    package = importlib.import_module("camp_softmax")
    if operator == "softmax_backward":
        return lambda pair: torch.ops.camp_softmax.softmax_backward(*pair, 1, "auto")
    _require(hasattr(package, operator), f"camp_softmax has no {operator}")
    return getattr(package, operator)


def _cuda(rung: str, operator: str, device: str) -> Call:
    _require(device == "cuda", "needs a CUDA device")
    package = importlib.import_module("camp_softmax.cuda")
    _require(operator in package.KERNELS[rung], f"this rung has no {operator}")
    return functools.partial(getattr(package, operator), rung=rung)


def _tilelang(rung: str, operator: str, device: str) -> Call:
    _require(device == "cuda" or rung != "cluster", "needs a CUDA device")
    module = importlib.import_module(f"camp_softmax.tilelang.{rung}")
    _require(hasattr(module, operator), f"this rung has no {operator}")
    return getattr(module, operator)


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise RuntimeError(otherwise)


LOADERS: dict[str, Callable[[str, str], Call]] = {
    "copy": _copy,
    "torch": _eager,
    "torch.compile": _compiled,
    "triton": _triton,
    "liger": _liger,
    "quack": _quack,
    "auto": _auto,
    **{f"cuda.{rung}": functools.partial(_cuda, rung) for rung in CUDA_RUNGS},
    **{f"tilelang.{rung}": functools.partial(_tilelang, rung) for rung in TILELANG_RUNGS},
}
PEERS = ("copy", "torch", "torch.compile", "triton", "liger", "quack")  # the others are ours
