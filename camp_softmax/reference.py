"""What every kernel is measured against: a float64 oracle, its tolerances, and softmax in eager torch.

The eager forms follow the course: `naive` overflows, `safe` needs three scans, `online` carries a state
(m, s) over column tiles and needs two. `merge` is the operation that makes the last one work.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

LOWEST = torch.finfo(torch.float32).min  # the lowest finite float32: max(x, LOWEST) = x, and unlike -inf
# it can be subtracted from -inf without giving NaN


# --- the oracle -----------------------------------------------------------------------------------


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    """softmax(x)_i = exp(x_i - m) / sum_j exp(x_j - m), m = max_j x_j, in float64.

    Args:
        x: floating tensor of any shape and dtype.
        dim: the dimension that sums to 1.

    Returns:
        float64 tensor of x's shape. A row with NaN or +inf, or of -inf only, is NaN, as in torch.

    Example:
        >>> softmax(torch.tensor([0.0, 1.0, 2.0]))
        tensor([0.0900, 0.2447, 0.6652], dtype=torch.float64)
    """
    wide = x.double()
    if wide.numel() == 0:
        return wide.clone()
    exp = torch.exp(wide - wide.amax(dim, keepdim=True))
    return exp / exp.sum(dim, keepdim=True)


def logsumexp(x: Tensor, dim: int = -1) -> Tensor:
    """log sum_j exp(x_j) in float64; -inf for an empty sum, +inf where x has +inf and no NaN.

    Args:
        x: floating tensor of any shape and dtype.
        dim: the dimension that is reduced away.

    Returns:
        float64 tensor of x's shape without `dim`.

    Example:
        >>> logsumexp(torch.tensor([1000.0, 1000.0]))
        tensor(1000.6931, dtype=torch.float64)
    """
    return torch.logsumexp(x.double(), dim)


def log_softmax(x: Tensor, dim: int = -1) -> Tensor:
    """log_softmax(x)_i = x_i - logsumexp(x), in float64. Arguments and result as for `softmax`.

    Example:
        >>> log_softmax(torch.tensor([0.0, 1000.0]))
        tensor([-1000.,     0.], dtype=torch.float64)
    """
    return torch.log_softmax(x.double(), dim)


# --- tolerances -----------------------------------------------------------------------------------

UNIT_ROUNDOFF = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}


TILE = 256  # columns that a kernel adds up before it merges


def rtol(dtype: torch.dtype, terms: int = 1, distance: Tensor | float = 0.0) -> Tensor | float:
    """How far a correct float32 kernel may be from the oracle, relative to the wanted value.

    With u = 2^-24, half a unit in the last place of a float32:

    - 16 u for the exponential, the division and what else happens once for an element.
    - u for each addition in a row: a tile's, then one for each tile. Mostly they cancel; a row whose terms
      are all rounded the same way, such as many of about u beside a 1, needs them all.
    - 4 u |x - m|: the kernels round x - m once and multiply it by a rounded log2(e), and an absolute error
      in an exponent is a relative error in the result.
    - A 16-bit output is rounded once more, by half a unit in its own last place.

    Args:
        dtype: the output's dtype: float32, float16 or bfloat16.
        terms: elements in a row.
        distance: |x - m|, m being the row's maximum; a float or a tensor of the output's shape.

    Returns:
        the relative tolerance, of `distance`'s type.

    Example:
        >>> f"{rtol(torch.float32):.1e} {rtol(torch.float32, 4096):.1e}"
        '1.0e-06 1.7e-05'
        >>> f"{rtol(torch.float32, 4096, 100.0):.1e}"
        '4.1e-05'
        >>> f"{rtol(torch.bfloat16):.1e}"
        '3.9e-03'
    """
    u = UNIT_ROUNDOFF[torch.float32]
    additions = min(terms, TILE) + terms / TILE
    output_rounding = 0.0 if dtype == torch.float32 else UNIT_ROUNDOFF[dtype]
    return output_rounding + (16 + additions) * u + 4 * u * distance


def smallest_subnormal(dtype: torch.dtype) -> float:
    """The spacing of `dtype` around 0: what a result may be off by where a relative error means nothing.

    Example:
        >>> smallest_subnormal(torch.float16)
        5.960464477539063e-08
    """
    info = torch.finfo(dtype)
    return info.tiny * info.eps


def expected(operator: str, x: Tensor, dim: int = -1) -> tuple[Tensor, Tensor]:
    """What an operator must give for x, and how far a correct float32 kernel may be from it.

    A relative error of a sum is an absolute error of its logarithm, so `logsumexp` and `log_softmax` have an
    absolute part: m + log(s) rounds m once more, x - m - log(s) rounds twice.

    Args:
        operator: "softmax", "log_softmax" or "logsumexp".
        x: float32, float16 or bfloat16 tensor of any shape.
        dim: the dimension along which it works.

    Returns:
        two float64 tensors: the oracle's result, and the largest |error|; NaN or inf, where the result is,
        means that there is nothing to measure: both must be the same.

    Example:
        >>> want, allowed = expected("softmax", torch.tensor([0.0, 0.0]))
        >>> want.tolist(), [f"{error:.1e}" for error in allowed.tolist()]
        ([0.5, 0.5], ['5.4e-07', '5.4e-07'])
    """
    want = {"softmax": softmax, "log_softmax": log_softmax, "logsumexp": logsumexp}[operator](x, dim)
    if x.numel() == 0:
        return want, torch.zeros_like(want)
    wide, terms = x.double(), x.shape[dim]
    u, output = UNIT_ROUNDOFF[torch.float32], UNIT_ROUNDOFF[x.dtype]
    m = wide.amax(dim, keepdim=operator != "logsumexp")
    relative: Tensor | float
    absolute: Tensor | float
    if operator == "softmax":
        relative, absolute = rtol(x.dtype, terms, (wide - m).abs()), 0.0
    elif operator == "log_softmax":
        relative, absolute = 2 * u + output, rtol(torch.float32, terms)
    else:
        relative, absolute = 2 * output, rtol(torch.float32, terms) + 2 * u * m.abs()
    return want, relative * want.abs() + absolute + smallest_subnormal(x.dtype)


def expected_backward(dy: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of softmax in float64, and how far a kernel may be from it that sums in float32.

    dx = y * (dy - sum(y * dy)), over the last dimension. The terms cancel, so it is off by a share of their
    sizes, not of the result. The products may be rounded to the dtype, as torch rounds them.

    Args:
        dy: the gradient of y; (..., M) floating point.
        y: the softmax, of the same shape and dtype.

    Returns:
        two float64 tensors of that shape: the gradient, and the largest |error|.

    Example:
        >>> dy, y = torch.tensor([1.0, 0.0]), torch.tensor([0.5, 0.5])
        >>> want, allowed = expected_backward(dy, y)
        >>> want, bool((allowed < 1e-5).all())
        (tensor([ 0.2500, -0.2500], dtype=torch.float64), True)
    """
    dtype, M = y.dtype, y.shape[-1]
    dy, y = dy.double(), y.double()
    products = y * dy
    want = products - y * products.sum(-1, keepdim=True)
    size = products.abs().sum(-1, keepdim=True)
    of_sum = (rtol(torch.float32, M) + rtol(dtype)) * size
    allowed = y.abs() * of_sum + 2 * rtol(dtype) * (want.abs() + products.abs())
    return want, allowed + smallest_subnormal(dtype) * (1 + size)


# --- eager forms ----------------------------------------------------------------------------------


class State(NamedTuple):
    """What an online softmax knows of the elements read so far: their maximum and scaled sum.

    m: the maximum; s: sum_j exp(x_j - m). Tensors of one shape, one state for each row.
    """

    m: Tensor
    s: Tensor


def naive(x: Tensor, dim: int = -1) -> Tensor:
    """exp(x) / sum exp(x), in x's dtype: overflows as soon as one x exceeds 88.72 in float32.

    Example:
        >>> naive(torch.tensor([100.0, 200.0, 300.0]))
        tensor([nan, nan, nan])
    """
    exp = torch.exp(x)
    return exp / exp.sum(dim, keepdim=True)


def safe(x: Tensor, dim: int = -1) -> Tensor:
    """Three scans, in x's dtype: maximum, sum of exp(x - m), write.

    Example:
        >>> safe(torch.tensor([100.0, 200.0, 300.0]))
        tensor([0.0000e+00, 3.7835e-44, 1.0000e+00])
    """
    m = x.amax(dim, keepdim=True)
    s = torch.exp(x - m).sum(dim, keepdim=True)
    return torch.exp(x - m) / s


def merge(a: State, b: State) -> State:
    """The state of two disjoint sets of elements, from the state of each.

    m = max(a.m, b.m); s = a.s exp(a.m - m) + b.s exp(b.m - m). Associative and commutative, with
    (LOWEST, 0) as its neutral element (Milakov and Gimelshein, "Online normalizer calculation for
    softmax", 2018, section 3).

    Example:
        >>> merge(State(torch.tensor(4.0), torch.tensor(1.5)), State(torch.tensor(4.0), torch.tensor(2.0)))
        State(m=tensor(4.), s=tensor(3.5000))
    """
    m = torch.maximum(a.m, b.m)
    return State(m, a.s * torch.exp(a.m - m) + b.s * torch.exp(b.m - m))


def tile_state(tile: Tensor) -> State:
    """The state of one tile, (..., width) with width >= 1, reduced over its last dimension.

    A tile of -inf only has m = LOWEST and s = 0, so that -inf is never subtracted from itself.

    Example:
        >>> tile_state(torch.tensor([0.0, 0.0]))
        State(m=tensor(0.), s=tensor(2.))
    """
    m = tile.amax(-1).clamp(min=torch.finfo(tile.dtype).min)
    return State(m, torch.exp(tile - m.unsqueeze(-1)).sum(-1))


def states(x: Tensor, tile: int) -> Iterator[State]:
    """The running state of x (..., M) after each column tile of width `tile`; the last may be narrower.

    Raises:
        ValueError: `tile` is less than 1.

    Example:
        >>> row = torch.tensor([3.0, 1, 4, 1, 5, 9, 2, 6])
        >>> [(m.item(), round(s.item(), 3)) for m, s in states(row, 3)]
        [(4.0, 1.418), (9.0, 1.028), (9.0, 1.079)]
    """
    if tile < 1:
        raise ValueError(f"states: expected a tile of at least 1 column, got {tile}")
    lowest = torch.full(x.shape[:-1], torch.finfo(x.dtype).min, dtype=x.dtype, device=x.device)
    state = State(lowest, torch.zeros_like(lowest))
    for columns in x.split(tile, -1):
        state = merge(state, tile_state(columns))
        yield state


def online(x: Tensor, tile: int) -> Tensor:
    """Two scans over the last dimension, in x's dtype: one carries (m, s) over the tiles, one writes.

    Args:
        x: (..., M) with M >= 1.
        tile: columns a tile; any value from 1 up gives the same result up to rounding.

    Example:
        >>> online(torch.tensor([1000.0, -1000.0]), tile=1)
        tensor([1., 0.])
    """
    *_, (m, s) = states(x, tile)
    return torch.exp(x - m.unsqueeze(-1)) / s.unsqueeze(-1)


# --- traffic --------------------------------------------------------------------------------------

SCANS = {  # rung: (times each element is read, times it is written)
    "naive": (2, 1),
    "three_pass": (3, 2),  # the second pass stores exp(x - m), the third reads it back
    "three_scan": (3, 1),  # the same with exp computed twice instead of stored
    "online": (2, 1),
    "single_read": (1, 1),
    "cluster": (1, 1),
}


def bytes_moved(rung: str, shape: tuple[int, ...], dtype: torch.dtype) -> int:
    """Bytes that a rung asks of the memory system for a tensor of this shape, caches ignored.

    Raises:
        KeyError: `rung` is not in SCANS.

    Example:
        >>> bytes_moved("online", (1024, 4096), torch.float32) // 2**20  # MiB
        48
    """
    reads, writes = SCANS[rung]
    return (reads + writes) * torch.Size(shape).numel() * dtype.itemsize
