"""FlashAttention in TileLang, forward: the online softmax between two matrix products.

Reads q once, and k and v once for each tile of queries; writes the output once. Never stored: the Nq x Nk
scores and weights, of which a block has one tile at a time, in registers. What makes it possible is the
state (m, s) of online.py, merged by the same macro: the output so far is a sum of exp(x - m) too, so it is
rescaled together with s. Slower than the best: within a group of warps the products wait for the
exponentials, and those for the products; two groups of a block overlap, but nobody arranges that they do.
"""

import math
from typing import NamedTuple

import tilelang.language as T
import torch
from torch import Tensor

from camp_softmax.limits import ALIGNMENT
from camp_softmax.tilelang.online import merge_tile
from camp_softmax.tilelang.rows import LOG2E, LOWEST, kernel

DTYPES = (torch.float16, torch.bfloat16)
OPTIONS = ("tl.enable_fast_math",)  # exp2 in one instruction: what it loses is below the rounding to 16 bits
ROWS = T.GemmWarpPolicy.FullRow  # a query's scores stay within a warp, and so do its maximum and its sum


class Tile(NamedTuple):
    """What a block works on: `queries` and `keys` at a time, `stages` tiles of keys and values on the way."""

    queries: int
    keys: int
    stages: int
    threads: int


# A multiprocessor has 227 KB of shared memory for a block, which holds 16-bit q and `stages` of k and v:
#   D = 64: 128 * 64 * 2 * (1 + 2 * 3) = 112 KB; D = 128: 128 * 128 * 2 * (1 + 2 * 2) = 160 KB.
# It has 64 K registers. TileLang adds 128 threads that load, with 24 each; the other 256 have 240, of which
# 128 * 128 / 256 = 64 hold scores, half as many 16-bit weights, and 128 * D / 256 = 32 or 64 the output.
TILES = {64: Tile(128, 128, 3, 256), 128: Tile(128, 128, 2, 256)}


# --8<-- [start:visible]
def visible(query, Nq, Nk, causal):
    """How many keys a query sees: all, or if causal, those up to its own place.

    Places are counted from the end: the last query is at the last key.
    """
    return query + 1 + Nk - Nq if causal else Nk
    # --8<-- [end:visible]


# --8<-- [start:scores]
@T.macro
def score_tile(q, k, scores, scale):
    """scores = q k^T, scaled."""
    T.gemm(q, k, scores, transpose_B=True, policy=ROWS, clear_accum=True)
    for i, j in T.Parallel(*scores.shape):
        scores[i, j] *= scale
    # --8<-- [end:scores]


# --8<-- [start:mask]
@T.macro
def mask_tile(scores, query0, key0, Nq, Nk, causal):
    """-inf for keys that a query does not see: neither max nor sum will.

    Also where there is no key: k has zeros there, and 0 may be the largest.
    """
    unseen = -T.infinity("float32")
    if key0 + scores.shape[1] > visible(query0, Nq, Nk, causal):  # not by all
        for i, j in T.Parallel(*scores.shape):
            sees = key0 + j < visible(query0 + i, Nq, Nk, causal)
            scores[i, j] = T.if_then_else(sees, scores[i, j], unseen)
    # --8<-- [end:mask]


# --8<-- [start:merge]
@T.macro
def merge_scores(scores, m, s, acc):
    """(m, s) = the state so far and this tile's, merged; acc goes along.

    Scores become exp(scores - m).
    """
    m_old = T.alloc_fragment(m.shape, "float32")
    T.copy(m, m_old)
    merge_tile(scores, m, s, T.infinity("float32"))
    for i, d in T.Parallel(*acc.shape):
        acc[i, d] *= T.exp2((m_old[i] - m[i]) * LOG2E)
    # --8<-- [end:merge]


# --8<-- [start:values]
@T.macro
def add_values(scores, v, acc):
    """acc += weights v, where no weight is divided by s yet.

    Weights are rounded to v's dtype.
    """
    weights = T.alloc_fragment(scores.shape, v.dtype)
    for i, j in T.Parallel(*scores.shape):
        weights[i, j] = scores[i, j]
    T.gemm(weights, v, acc, policy=ROWS)
    # --8<-- [end:values]


# --8<-- [start:output]
@T.macro
def write(acc, s, Out, head, query0):
    """Out = acc / s; 0 where s is, for a query that sees no key."""
    for i, d in T.Parallel(*acc.shape):
        if query0 + i < Out.shape[1]:
            mean = acc[i, d] / s[i]
            Out[head, query0 + i, d] = T.if_then_else(s[i] == 0, 0, mean)
    # --8<-- [end:output]


# --8<-- [start:kernel]
def attention_kernel(D: int, dtype: str, causal: bool, scale: float, cut: Tile):
    """Out = softmax(scale Q K^T) V, head by head, of H heads."""
    H, Nq, Nk = T.dynamic("H"), T.dynamic("Nq"), T.dynamic("Nk")
    queries, keys, stages, threads = cut

    @T.prim_func
    def flash_attention(
        Q: T.Tensor((H, Nq, D), dtype),
        K: T.Tensor((H, Nk, D), dtype),
        V: T.Tensor((H, Nk, D), dtype),
        Out: T.Tensor((H, Nq, D), dtype),
    ):
        with T.Kernel(H * T.ceildiv(Nq, queries), threads=threads) as block:
            q = T.alloc_shared((queries, D), dtype)
            k = T.alloc_shared((keys, D), dtype)
            v = T.alloc_shared((keys, D), dtype)
            scores = T.alloc_fragment((queries, keys), "float32")
            m = T.alloc_fragment((queries,), "float32")  # maximum so far
            s = T.alloc_fragment((queries,), "float32")  # sum of exp(x - m)
            acc = T.alloc_fragment((queries, D), "float32")  # the same, times v
            # Variables: expressions would be divided out at each use.
            head, query0 = T.alloc_var("int32"), T.alloc_var("int32")
            blocks = T.ceildiv(Nq, queries)  # of a head: they share its keys
            head = block // blocks
            query0 = (blocks - 1 - block % blocks) * queries  # most work first
            T.copy(Q[head, query0 : query0 + queries, :], q)  # (queries, D)
            T.fill(acc, 0)
            T.fill(m, LOWEST)
            T.fill(s, 0)
            end = T.min(visible(query0 + queries - 1, Nq, Nk, causal), Nk)
            tiles = T.max(T.ceildiv(end, keys), 1)  # one, to wait for q
            for t in T.Pipelined(tiles, num_stages=stages):
                T.copy(K[head, t * keys : (t + 1) * keys, :], k)  # (keys, D)
                score_tile(q, k, scores, scale)  # (queries, keys)
                mask_tile(scores, query0, t * keys, Nq, Nk, causal)
                merge_scores(scores, m, s, acc)
                T.copy(V[head, t * keys : (t + 1) * keys, :], v)  # (keys, D)
                add_values(scores, v, acc)  # (queries, D)
            write(acc, s, Out, head, query0)

    return flash_attention
    # --8<-- [end:kernel]


def attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, scale: float | None = None) -> Tensor:
    """softmax(scale q k^T) v for each head, with the weights of no query ever in memory.

    Dao et al., "FlashAttention", 2022, arXiv:2205.14135; the state that it carries from one tile of keys to
    the next is that of Milakov and Gimelshein, 2018, arXiv:1805.02867. As
    `torch.nn.functional.scaled_dot_product_attention`, but a causal mask is aligned to the last key, as
    generation needs it: the last query sees every key, and if there are more queries than keys, the first
    see none.

    Args:
        q: (B, H, Nq, D), D 64 or 128; float16 or bfloat16, on a CUDA device or a CPU. Any lengths, 0 too.
            What is not contiguous is copied. No gradient flows through.
        k: (B, H, Nk, D), of q's dtype and device.
        v: (B, H, Nk, D), likewise. A masked key has weight 0, but 0 times an inf in v is NaN.
        causal: query i sees the keys up to i + Nk - Nq only.
        scale: what each score is multiplied by, compiled in; 1 / sqrt(D) if None.

    Returns:
        contiguous tensor (B, H, Nq, D) of q's dtype. Scores, state and sums are float32; the weights are
        rounded to that dtype before they meet v. 0 for a query that sees no key, or whose scores are all
        -inf; NaN for one that has a score of NaN or +inf.

    Raises:
        TypeError: not dense tensors, another dtype, or an argument of another type.
        ValueError: shapes that do not fit, fewer heads of k and v than of q (grouped-query attention),
            another D or device, or a scale that is not finite. Nothing is launched then.

    Example:
        >>> q = torch.zeros(1, 1, 2, 64, dtype=torch.float16)  # zeros: equal weights
        >>> v = torch.tensor([1.0, 3.0, 8.0], dtype=torch.float16).view(1, 1, 3, 1).expand(1, 1, 3, 64)
        >>> attention(q, torch.zeros_like(v), v)[0, 0, :, 0]
        tensor([4., 4.], dtype=torch.float16)
        >>> attention(q, torch.zeros_like(v), v, causal=True)[0, 0, :, 0]
        tensor([2., 4.], dtype=torch.float16)
    """
    _check(q, k, v, causal, scale)
    if q.numel() == 0 or k.numel() == 0:
        return q.new_zeros(q.shape)
    if q.dtype == torch.bfloat16 and q.device.type == "cpu":  # exact, and rounded once: see cpu.py
        return _run(q.float(), k.float(), v.float(), causal, scale).bfloat16()
    return _run(q, k, v, causal, scale)


def _run(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None) -> Tensor:
    D, dtype = q.shape[-1], str(q.dtype).removeprefix("torch.")
    factor = 1 / math.sqrt(D) if scale is None else float(scale)
    compiled = kernel(attention_kernel, D, dtype, causal, factor, TILES[D], device=q.device, options=OPTIONS)
    out = q.new_empty(q.shape)
    compiled(_heads(q), _heads(k), _heads(v), out.flatten(0, 1))
    return out


def _heads(x: Tensor) -> Tensor:
    """(B, H, N, D) as (B * H, N, D), copied where memory is not in that order or begins between vectors."""
    x = x.detach().resolve_neg().contiguous().flatten(0, 1)
    return x.clone() if x.data_ptr() % ALIGNMENT else x


def _check(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None) -> None:
    """Raises for what the kernel may not see."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, Tensor):
            raise TypeError(f"attention: expected {name} to be a tensor, got {type(x).__name__}")
        if x.layout != torch.strided or x.is_nested:
            raise TypeError(f"attention: expected {name} to be dense, got layout {x.layout}")
        if x.dtype not in DTYPES:
            raise TypeError(f"attention: expected {name} to be float16 or bfloat16, got {x.dtype}")
        if x.dtype != q.dtype:
            raise TypeError(f"attention: expected one dtype, got {q.dtype} for q and {x.dtype} for {name}")
        if x.device.type not in ("cuda", "cpu") or x.device != q.device:
            raise ValueError(
                f"attention: expected one CUDA device or the CPU, got q on {q.device}, {name} on {x.device}"
            )
        if x.dim() != 4:
            raise ValueError(f"attention: expected {name} of shape (B, H, N, D), got {tuple(x.shape)}")
    if type(causal) is not bool:
        raise TypeError(f"attention: expected causal to be a bool, got {causal!r}")
    if scale is not None and (isinstance(scale, bool) or not isinstance(scale, (int, float))):
        raise TypeError(f"attention: expected scale to be a number, got {scale!r}")
    if scale is not None and not abs(scale) <= torch.finfo(torch.float32).max:
        raise ValueError(f"attention: expected a scale that is finite in float32, got {scale}")
    B, H, _, D = q.shape
    if D not in TILES:
        raise ValueError(f"attention: expected a head dimension of 64 or 128, got {D}")
    if k.shape != v.shape:
        raise ValueError(
            f"attention: expected k and v of one shape, got {tuple(k.shape)} and {tuple(v.shape)}"
        )
    if (k.shape[0], k.shape[3]) == (B, D) and 0 < k.shape[1] < H and H % k.shape[1] == 0:
        group = H // k.shape[1]
        raise ValueError(
            f"attention: no grouped-query attention: q has {H} heads, k and v have {k.shape[1]}; pass "
            f"k.repeat_interleave({group}, 1) and v.repeat_interleave({group}, 1)"
        )
    if (*k.shape[:2], k.shape[3]) != (B, H, D):
        raise ValueError(
            f"attention: expected k and v of shape ({B}, {H}, Nk, {D}) beside q {tuple(q.shape)}, got "
            f"{tuple(k.shape)}"
        )
