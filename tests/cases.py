"""Inputs that break wrong kernels, and the comparison with the float64 oracle that all kernel tests share."""

import functools
from collections.abc import Callable

import torch
from torch import Tensor

from camp_softmax import reference

INF, NAN = torch.inf, torch.nan
LOWEST, HIGHEST = torch.finfo(torch.float32).min, torch.finfo(torch.float32).max
TILE = 256  # the tutorial's block_m
M = 2 * TILE + 1  # three tiles, the last with one column
TUTORIAL_SHAPES = [(1, 1), (3, 7), (16, 256), (17, 513), (64, 4096)]
BOUNDARIES = [k * TILE + d for k in (1, 2, 3) for d in (-1, 0, 1)]
ODD_LENGTHS = (2 * torch.randint(2, 6000, (3,), generator=torch.Generator().manual_seed(1)) + 1).tolist()


def random(rows: int, columns: int) -> Tensor:
    """Normal numbers with outliers: without them a kernel that forgets the maximum passes."""
    generator = torch.Generator().manual_seed(rows * columns)
    x = 3 * torch.randn(rows, columns, generator=generator)
    return x + 40 * (torch.rand(rows, columns, generator=generator) < 0.01)


def tiles(*values: float) -> Tensor:
    """(2, M): each value fills one tile, the last value the tail."""
    row = torch.cat(
        [torch.full((TILE,), float(v)) for v in values[:-1]] + [torch.tensor(values[-1:]).float()]
    )
    return row.repeat(2, 1)


def with_values(**places: float) -> Tensor:
    """random(4, M) with row 2 changed: c0=v puts v into column 0."""
    x = random(4, M)
    for place, value in places.items():
        x[2, int(place[1:])] = value
    return x


CASES: dict[str, Callable[[], Tensor]] = {
    "random": lambda: random(17, M),
    "uniform -1000": lambda: torch.full((3, M), -1000.0),
    "uniform -20": lambda: torch.full((3, M), -20.0),
    "uniform 0": lambda: torch.zeros(3, M),
    "uniform +20": lambda: torch.full((3, M), 20.0),
    "large": lambda: 1e4 + random(3, M),
    "negative": lambda: -torch.rand(3, M) - 5,
    "descending tiles": lambda: tiles(1000, -1000, -1000),
    "ascending tiles": lambda: tiles(-1000, 0, 1000),
    "descending inside": lambda: torch.linspace(100, -100, M).repeat(2, 1),
    "ascending inside": lambda: torch.linspace(-100, 100, M).repeat(2, 1),
    "first tile -inf": lambda: tiles(-INF, 1, 2),
    "middle tile -inf": lambda: tiles(1, -INF, 2),
    "last tile -inf": lambda: tiles(1, 2, -INF),
    "only the tail": lambda: tiles(-INF, -INF, -300),
    "all -inf": lambda: tiles(-INF, -INF, -INF),
    "one -inf": lambda: with_values(c0=-INF),
    "NaN first": lambda: with_values(c0=NAN),
    "NaN in the tail": lambda: with_values(c512=NAN),
    "+inf": lambda: with_values(c300=INF),
    "+inf and -inf": lambda: with_values(c0=-INF, c300=INF),
    "+inf and NaN": lambda: with_values(c0=INF, c300=NAN),
    "lowest": lambda: torch.full((2, M), LOWEST),
    "lowest and -inf": lambda: tiles(-INF, LOWEST, -INF),
    "lowest and highest": lambda: tiles(LOWEST, HIGHEST, LOWEST),
    "equal terms": lambda: tiles(-0.1, -0.1, 0),
    "terms that round alike": lambda: tiles(-16.6, -16.6, -16.6).index_fill(1, torch.tensor([0]), 0.0),
    "underflow": lambda: tiles(0, -95, -103),
    "a spike at every position": lambda: 100 * torch.eye(M),
    "a dip at every position": lambda: -100 * torch.eye(M),
}


def check(name: str, operator: Callable[[Tensor], Tensor], x: Tensor, dim: int = -1) -> None:
    """Asserts that operator(x) is, element by element, what the oracle says of the operator `name`."""
    y = operator(x)
    want, allowed = reference.expected(name, x.cpu(), dim)
    assert (y.shape, y.dtype, y.device) == (want.shape, x.dtype, x.device)
    compare(y, want, allowed)


def compare(y: Tensor, want: Tensor, allowed: Tensor) -> None:
    """Asserts that y, on any device, is `want`, a float64 tensor on the CPU, up to `allowed`."""
    got = y.cpu().double()
    rounded = want.to(y.dtype).double()  # where the dtype overflows, inf is right
    same = (got == rounded) | (got.isnan() & want.isnan())
    right = same | (want.isfinite() & ((got - want).abs() <= allowed))
    if not right.all():
        place = tuple((~right).nonzero()[0].tolist())
        raise AssertionError(
            f"{(~right).sum().item()} of {got.numel()} elements are wrong; the first, at {place}: "
            f"expected {want[place].item():.9g}, got {got[place].item():.9g}"
        )


check_softmax = functools.partial(check, "softmax")
check_log_softmax = functools.partial(check, "log_softmax")
check_logsumexp = functools.partial(check, "logsumexp")
CHECKS = {"softmax": check_softmax, "log_softmax": check_log_softmax, "logsumexp": check_logsumexp}


def check_gradient(name: str, operator: Callable[[Tensor], Tensor], x: Tensor, dy: Tensor, dim: int) -> None:
    """Asserts that the gradient of operator(x), for the gradient dy of its result, is the float64 one."""
    x = x.detach().requires_grad_()
    (dx,) = torch.autograd.grad(operator(x), x, dy)
    assert (dx.shape, dx.dtype, dx.device) == (x.shape, x.dtype, x.device)
    compare(dx, *expected_gradient(name, x.detach().cpu(), dy.cpu(), dim))


def expected_gradient(name: str, x: Tensor, dy: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The gradient in float64, and how far a correct kernel may be from it that is given y in x's dtype.

    The error of y reaches the gradient, and that of a sum of M products: each with the size of what is added,
    not of the result, as the terms cancel.
    """
    dtype, M = x.dtype, x.shape[dim]
    y, y_error = reference.expected("softmax", x, dim)
    y_error = y_error.where(x.isfinite(), 0)  # exp(-inf) is 0 without an error
    rounding = 2 * reference.rtol(dtype)
    additions = reference.rtol(torch.float32, M)
    tiny = reference.smallest_subnormal(dtype)
    dy = dy.double().unsqueeze(dim) if name == "logsumexp" else dy.double()

    def total(value: Tensor) -> Tensor:
        return value.sum(dim, keepdim=True)

    if name == "logsumexp":
        want = dy * y
        return want, dy.abs() * y_error + rounding * want.abs() + tiny
    if name == "softmax":
        want = y * (dy - total(y * dy))
        size = dy.abs() + total((y * dy).abs())
        error = y_error * size + y * (total(y_error * dy.abs()) + additions * size)
        return want, error + rounding * (want.abs() + y * dy.abs()) + tiny * (1 + size)
    log_y, log_error = reference.expected("log_softmax", x, dim)
    want = dy - y * total(dy)
    of_exp = torch.expm1(log_error + additions * (1 + log_y.abs())).where(x.isfinite(), 0)
    error = y * (of_exp * total(dy).abs() + additions * total(dy.abs()))
    return want, error + rounding * (want.abs() + dy.abs()) + tiny
