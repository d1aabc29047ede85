"""The operators as torch knows them: torch.ops.camp_softmax.*, with shapes, derivatives and batching.

Whoever transforms a program, such as torch.compile, vmap or autograd, sees these instead of a launch. They
take what `kernels` does, also without storage (fake and meta tensors).

    softmax, log_softmax      y from x         derivative: softmax_backward, log_softmax_backward
    logsumexp                 y from x         derivative: softmax(x) times that of y
    softmax_backward, …       dx from dy, y    derivative: the formula in torch's operations, to any order
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction
from torch.library import Library

from camp_softmax import kernels

LIBRARY = Library("camp_softmax", "DEF")
FORWARD = ("softmax", "log_softmax", "logsumexp")
BACKWARD = ("softmax_backward", "log_softmax_backward")

for name in FORWARD:
    LIBRARY.define(f"{name}(Tensor x, int dim, str backend) -> Tensor", tags=torch.Tag.pt2_compliant_tag)
for name in BACKWARD:
    schema = f"{name}(Tensor grad, Tensor y, int dim, str backend) -> Tensor"
    LIBRARY.define(schema, tags=torch.Tag.pt2_compliant_tag)

OPERATORS: dict[str, Callable[..., Tensor]] = {
    name: getattr(torch.ops.camp_softmax, name).default for name in (*FORWARD, *BACKWARD)
}
softmax_backward, log_softmax_backward = (OPERATORS[name] for name in BACKWARD)


# --- kernels, and shapes without them -------------------------------------------------------------


def _fake(x: Tensor, dim: int, backend: str) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _fake_reduced(x: Tensor, dim: int, backend: str) -> Tensor:
    return x.new_empty([*x.shape[:dim], *x.shape[dim + 1 :]])


def _fake_backward(grad: Tensor, y: Tensor, dim: int, backend: str) -> Tensor:
    return torch.empty_like(y, memory_format=torch.contiguous_format)


for name in FORWARD:
    for device in ("CPU", "CUDA"):
        LIBRARY.impl(name, functools.partial(kernels.forward, name), device)
    fake = _fake_reduced if name == "logsumexp" else _fake
    torch.library.register_fake(f"camp_softmax::{name}", fake, lib=LIBRARY)
for name in BACKWARD:
    for device in ("CPU", "CUDA"):
        LIBRARY.impl(name, functools.partial(kernels.backward, name.removesuffix("_backward")), device)
    torch.library.register_fake(f"camp_softmax::{name}", _fake_backward, lib=LIBRARY)


# --- derivatives: backward from the gradient of the result, forward from the tangents of the arguments ----


def _sum(x: Tensor, ctx: Any) -> Tensor:
    return x.sum(ctx.dim, keepdim=True)


class Softmax:
    """The matrix of its derivative is symmetric, so the same operator serves both directions."""

    @staticmethod
    def keep(tensors: list[Tensor], y: Tensor) -> list[Tensor]:
        return [y]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return (softmax_backward(grad, *ctx.saved_tensors, ctx.dim, ctx.backend),)

    @staticmethod
    def jvp(ctx: Any, kept: list[Tensor], x_t: Tensor) -> Tensor:
        return softmax_backward(x_t, *kept, ctx.dim, ctx.backend)


class LogSoftmax:
    keep = Softmax.keep

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return (log_softmax_backward(grad, *ctx.saved_tensors, ctx.dim, ctx.backend),)

    @staticmethod
    def jvp(ctx: Any, kept: list[Tensor], x_t: Tensor) -> Tensor:
        (y,) = kept
        return x_t - _sum(y.exp() * x_t, ctx)


class Logsumexp:
    """By way of softmax, not of exp(x - y): y has been rounded, and in 16 bits that is far off."""

    @staticmethod
    def keep(tensors: list[Tensor], y: Tensor) -> list[Tensor]:
        return tensors

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights = OPERATORS["softmax"](*ctx.saved_tensors, ctx.dim, ctx.backend)
        return (grad.unsqueeze(ctx.dim) * weights,)

    @staticmethod
    def jvp(ctx: Any, kept: list[Tensor], x_t: Tensor) -> Tensor:
        weights = OPERATORS["softmax"](*kept, ctx.dim, ctx.backend)
        return (weights * x_t).sum(ctx.dim)


class SoftmaxBackward:
    """dx = y * (dy - sum(y * dy)) is linear in dy."""

    keep = Logsumexp.keep

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        dy, y = ctx.saved_tensors
        of_dy = of_y = None
        if ctx.needs_input_grad[0]:
            of_dy = softmax_backward(grad, y, ctx.dim, ctx.backend)
        if ctx.needs_input_grad[1]:
            of_y = grad * (dy - _sum(y * dy, ctx)) - dy * _sum(y * grad, ctx)
        return of_dy, of_y

    @staticmethod
    def jvp(ctx: Any, kept: list[Tensor], dy_t: Tensor, y_t: Tensor) -> Tensor:
        dy, y = kept
        of_y = y_t * (dy - _sum(y * dy, ctx)) - y * _sum(y_t * dy, ctx)
        return softmax_backward(dy_t, y, ctx.dim, ctx.backend) + of_y


class LogSoftmaxBackward:
    """dx = dy - exp(y) * sum(dy) is linear in dy."""

    keep = Logsumexp.keep

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        dy, y = ctx.saved_tensors
        of_dy = of_y = None
        if ctx.needs_input_grad[0]:
            of_dy = grad - _sum(y.exp() * grad, ctx)
        if ctx.needs_input_grad[1]:
            of_y = -y.exp() * grad * _sum(dy, ctx)
        return of_dy, of_y

    @staticmethod
    def jvp(ctx: Any, kept: list[Tensor], dy_t: Tensor, y_t: Tensor) -> Tensor:
        dy, y = kept
        return dy_t - y.exp() * (_sum(dy_t, ctx) + y_t * _sum(dy, ctx))


def _transforms() -> bool:
    """Whether a transformation of torch.func is at work."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def _differentiable(operator: Any, derivative: Any) -> Callable[..., Tensor]:
    """The operator as autograd calls it. `torch.library.register_autograd` does the same, but refuses to work
    inside vmap and has no forward mode.
    """

    def below(keyset: Any, arguments: tuple) -> Tensor:
        with torch._C._AutoDispatchBelowAutograd():
            return operator.redispatch(keyset & torch._C._after_autograd_keyset, *arguments)

    class Node(_SingleLevelFunction):  # what autograd.Function is made of, without its refusals
        @staticmethod
        def forward(ctx: Any, *arguments: Any) -> Tensor:
            *tensors, ctx.dim, ctx.backend, keyset = arguments
            if _transforms():  # autograd is off in here; in jvp(grad), say, it has to be on for the outer one
                with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
                    result = below(keyset, arguments[:-1])
            else:
                result = below(keyset, arguments[:-1])
            kept = derivative.keep(tensors, result)
            ctx.save_for_backward(*kept)
            ctx.save_for_forward(*kept)
            return result

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
            return (*derivative.backward(ctx, *grads), None, None, None)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Tensor:
            with forward_ad._set_fwd_grad_enabled(True):  # likewise
                kept = [forward_ad.unpack_dual(tensor).primal for tensor in ctx.saved_tensors]
                return derivative.jvp(ctx, kept, *tangents[:-3])

    def autograd(keyset: Any, *arguments: Any) -> Tensor:
        wanted = torch.is_grad_enabled() and torch._C._any_requires_grad(*arguments)
        if not wanted and forward_ad._current_level < 0:
            return below(keyset, arguments)
        if not _transforms():
            return Node.apply(*arguments, keyset)  # type: ignore[attr-defined]
        with enable_single_level_autograd_function():  # inside vmap, too: `below` goes on to it
            return Node.apply(*arguments, keyset)  # type: ignore[attr-defined]

    return autograd


for name, derivative in (
    ("softmax", Softmax),
    ("log_softmax", LogSoftmax),
    ("logsumexp", Logsumexp),
    ("softmax_backward", SoftmaxBackward),
    ("log_softmax_backward", LogSoftmaxBackward),
):
    LIBRARY.impl(name, _differentiable(OPERATORS[name], derivative), "Autograd", with_keyset=True)


# --- batches: a dimension more, in front ----------------------------------------------------------


def _batched(
    operator: Callable[..., Tensor], info: Any, in_dims: tuple, *arguments: Any
) -> tuple[Tensor, int]:
    *tensors, dim, backend = arguments
    in_front = [
        tensor.expand(info.batch_size, *tensor.shape) if at is None else tensor.movedim(at, 0)
        for tensor, at in zip(tensors, in_dims, strict=False)
    ]
    return operator(*in_front, dim + 1, backend), 0


for name, operator in OPERATORS.items():
    torch.library.register_vmap(f"camp_softmax::{name}", functools.partial(_batched, operator), lib=LIBRARY)
