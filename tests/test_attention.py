"""FlashAttention in TileLang beside attention in float64: values, masks, extremes, and what is refused."""

import itertools
import math
import re
from collections.abc import Callable

import pytest
import tilelang
import tilelang.language as T
import torch
from torch import Tensor
from torch.backends.cuda import SDPAParams, can_use_cudnn_attention
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from tvm.target import Target

from camp_softmax.bench.attention import expected
from camp_softmax.tilelang import attention as module
from camp_softmax.tilelang import rows
from camp_softmax.tilelang.attention import DTYPES, OPTIONS, TILES, Tile, attention, attention_kernel
from camp_softmax.tilelang.rows import LOG2E
from cases import LOWEST

HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"
GPU = pytest.mark.skipif(not HAS_GPU, reason="needs a CUDA device")
INF, NAN = torch.inf, torch.nan
SHIPPED = dict(TILES)
# The CPU target takes each element in turn: small tiles, so that few elements make several of them.
SIDE = 128 if HAS_GPU else 16
N = 2 * SIDE + 5  # queries and keys of most cases: three tiles, the last with five

ON_CPU = [(64, torch.float16, True), (128, torch.bfloat16, False)]  # each is a compilation
KERNELS = [
    pytest.param(*kernel, marks=() if kernel in ON_CPU else GPU)
    for kernel in itertools.product(TILES, DTYPES, (False, True))
]


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    if not HAS_GPU:
        for D in TILES:
            monkeypatch.setitem(TILES, D, Tile(SIDE, SIDE, 2, 128))


# --- the comparison -------------------------------------------------------------------------------


def check(q: Tensor, k: Tensor, v: Tensor, causal: bool = False, scale: float | None = None) -> None:
    """Asserts that the kernel gives, element by element, what the oracle does."""
    q, k, v = (x.to(DEVICE) for x in (q, k, v))
    out = attention(q, k, v, causal=causal, scale=scale)
    want, allowed = expected(q, k, v, causal, scale)
    assert (out.shape, out.dtype, out.device) == (q.shape, q.dtype, q.device)
    got = out.double()
    right = ((got - want).abs() <= allowed) | (got.isnan() & want.isnan())
    if not right.all():
        place = tuple((~right).nonzero()[0].tolist())
        raise AssertionError(
            f"{(~right).sum().item()} of {got.numel()} elements are wrong; the first, at {place}: expected "
            f"{want[place].item():.6g} within {allowed[place].item():.2g}, got {got[place].item():.6g}"
        )


# --- inputs ---------------------------------------------------------------------------------------

Case = Callable[[int, torch.dtype], tuple[Tensor, Tensor, Tensor]]


def random(B: int, H: int, Nq: int, Nk: int, D: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Normal numbers, k with outliers, so that a few keys have most of the weight."""
    generator = torch.Generator().manual_seed(Nq * Nk * D)
    q, k, v = (torch.randn(B, H, n, D, generator=generator) for n in (Nq, Nk, Nk))
    k *= 1 + 5 * (torch.rand(B, H, Nk, 1, generator=generator) < 0.05)
    return q.to(dtype), k.to(dtype), v.to(dtype)


def scored(scores: Tensor) -> Case:
    """Keys that have these scores with every query, which is 16 in its first place and 0 elsewhere.

    Each value has a 1 in another place, so that the output is made of single weights.
    """

    def make(D: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        Nk = len(scores)
        q, k, v = torch.zeros(1, 1, N, D), torch.zeros(1, 1, Nk, D), torch.zeros(1, 1, Nk, D)
        q[..., 0] = 16
        k[0, 0, :, 0] = scores * math.sqrt(D) / 16
        v[0, 0, torch.arange(Nk), torch.arange(Nk) % D] = 1
        return q.to(dtype), k.to(dtype), v.to(dtype)

    return make


def steps(*values: float) -> Tensor:
    """N scores, each value for one tile."""
    return torch.tensor(values, dtype=torch.float64).repeat_interleave(SIDE)[:N]


def with_value(which: int, value: float) -> Case:
    """Random, with the value in one place of q (0), k (1) or v (2), seen by some queries if causal."""

    def make(D: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        inputs = random(1, 2, N, N, D, dtype)
        inputs[which][0, 1, SIDE + 3, 5] = value
        return inputs

    return make


def another_head(D: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """NaN in all of the second head: where a tile sticks out of the first, it must not be read."""
    inputs = random(1, 3, N, N, D, dtype)
    for x in inputs:
        x[:, 1] = NAN
    return inputs


def scaled(q: float, k: float, v: float) -> Case:
    """Random, each tensor times a number."""

    def make(D: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        inputs = random(1, 2, N, N, D, dtype)
        return inputs[0] * q, inputs[1] * k, inputs[2] * v

    return make


def ones(D: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Values of 1, so that the output is the sum of the weights."""
    q, k, v = random(1, 2, N, N, D, dtype)
    return q, k, torch.ones_like(v)


CASES: dict[str, Case] = {
    "random": lambda D, dtype: random(2, 3, N, N, D, dtype),
    "equal weights": scaled(0, 1, 1),
    "sharp": scaled(8, 1, 1),
    "values of 1": ones,
    "offset +10000": scored(1e4 + 32 * (torch.arange(N) % 3)),
    "offset -10000": scored(-1e4 + 32 * (torch.arange(N) % 3)),
    "offset -20": scored(torch.full((N,), -20.0)),
    "ascending": scored(torch.linspace(-50, 50, N)),
    "descending": scored(torch.linspace(50, -50, N)),
    "ascending tiles": scored(steps(-1000, 0, 1000)),
    "descending tiles": scored(steps(1000, 0, -1000)),
    "last key": scored(torch.zeros(N).index_fill(0, torch.tensor([N - 1]), 200)),
    "first tile -inf": scored(steps(-INF, 0, 1)),
    "middle tile -inf": scored(steps(0, -INF, 1)),
    "only the last tile": scored(steps(-INF, -INF, -300)),
    "all -inf": scored(steps(-INF, -INF, -INF)),
    "+inf": scored(steps(0, INF, 0)),
    "NaN": scored(steps(0, NAN, 0)),
    "NaN in q": with_value(0, NAN),
    "inf in q": with_value(0, INF),
    "NaN in k": with_value(1, NAN),
    "inf in k": with_value(1, INF),
    "-inf in k": with_value(1, -INF),
    "NaN in another head": another_head,
}


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("D", "dtype", "causal"), KERNELS)
def test_values(D, dtype, causal):
    for make in CASES.values():
        check(*make(D, dtype), causal)


LENGTHS = [
    (1, 1),
    (1, SIDE + 1),
    (SIDE - 1, SIDE),
    (SIDE, SIDE),
    (SIDE + 1, 3 * SIDE),
    (2 * SIDE + 1, 1),
    (N, SIDE),
]


@pytest.mark.parametrize(("D", "dtype", "causal"), KERNELS)
def test_lengths(D, dtype, causal):
    """One compiled kernel serves them all. More queries than keys: if causal, the first see none."""
    rows.kernel.cache_clear()
    for Nq, Nk in LENGTHS:
        check(*random(1, 2, Nq, Nk, D, dtype), causal)
    assert rows.kernel.cache_info().misses == 1


def test_queries_without_keys_are_0_as_a_mask_makes_them():
    q, k, v = (x.to(DEVICE) for x in random(1, 2, N, SIDE, 64, torch.float16))
    v[..., 0, :] = INF  # of a key that they do not see
    out = attention(q, k, v, causal=True)
    mask = torch.ones(N, SIDE, dtype=torch.bool, device=DEVICE).tril(SIDE - N)
    assert (out[:, :, : N - SIDE] == 0).all()
    assert torch.equal(out == 0, scaled_dot_product_attention(q, k, v.nan_to_num(), attn_mask=mask) == 0)


def test_a_masked_key_is_not_seen():
    q, k, v = random(1, 1, N, N, 64, torch.float16)
    want = attention(q.to(DEVICE), k.to(DEVICE), v.to(DEVICE), causal=True)
    for value in (NAN, INF, -INF):
        k[:, :, -1] = value
        out = attention(q.to(DEVICE), k.to(DEVICE), v.to(DEVICE), causal=True)
        assert torch.equal(out[:, :, :-1], want[:, :, :-1])


@pytest.mark.parametrize("causal", [False, True])
def test_nothing_to_read_or_write(causal):
    """No keys: zeros. No batch, head or query: nothing."""
    for B, H, Nq, Nk in ((2, 3, 4, 0), (0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 0, 5), (0, 0, 0, 0)):
        q, k = torch.ones(B, H, Nq, 64, dtype=torch.float16), torch.ones(B, H, Nk, 64, dtype=torch.float16)
        out = attention(q.to(DEVICE), k.to(DEVICE), k.to(DEVICE), causal=causal)
        assert out.tolist() == torch.zeros(B, H, Nq, 64).tolist()
        assert out.dtype == torch.float16


def test_views():
    """Heads behind the sequence, a slice, an expanded head, and memory that begins between two vectors."""
    q, k, v = (x.to(DEVICE) for x in random(2, 3, N, N, 64, torch.float16))
    want = attention(q, k, v, causal=True)
    behind = q.transpose(1, 2).contiguous().transpose(1, 2)
    flat = torch.empty(k.numel() + 1, dtype=k.dtype, device=DEVICE)
    shifted = flat[1:].view(k.shape).copy_(k)
    wide = torch.cat([v, v], -1)[..., :64]
    assert not behind.is_contiguous()
    assert torch.equal(attention(behind, shifted, wide, causal=True), want)
    expanded = attention(q, k[:, :1].expand_as(k), v, causal=True)
    assert torch.equal(expanded, attention(q, k[:, :1].repeat(1, 3, 1, 1), v, causal=True))
    assert torch.equal(attention(q.requires_grad_(), k, torch._neg_view(-v), causal=True), want)


@pytest.mark.parametrize("scale", [-0.3, *(pytest.param(scale, marks=GPU) for scale in (0, 2.0))])
def test_the_tiles_that_ship_and_other_scales(scale):
    """Whatever the device: 128 x 128, of which the last stick out."""
    TILES.update(SHIPPED)
    check(*random(1, 1, 130, 135, 64, torch.float16), causal=True, scale=scale)


def test_the_lowest_scores_and_the_largest_scale():
    """Scores as low as the neutral maximum: what the output starts with would weigh as much as they do."""
    q = torch.zeros(1, 1, 3, 64, dtype=torch.float16, device=DEVICE)
    q[..., 0] = 1
    v = torch.tensor([1.0, 3.0, 8.0]).to(q).view(1, 1, 3, 1).expand(q.shape)
    assert (attention(q, q, v, scale=LOWEST) == 4).all()


def test_nothing_is_read_or_written_outside_the_tensors():
    """What surrounds the inputs is NaN, and what surrounds the output is 7."""
    inputs = [x.to(DEVICE) for x in random(1, 2, N, N, 64, torch.float16)]
    edge = 2 * SIDE * 64

    def surrounded(x: Tensor, by: float) -> Tensor:
        memory = x.new_full((x.numel() + 2 * edge,), by)
        memory[edge:-edge] = x.flatten()
        return memory

    memories = [surrounded(x, NAN) for x in inputs] + [surrounded(torch.zeros_like(inputs[0]), 7)]
    compiled = rows.kernel(
        attention_kernel, 64, "float16", True, 1 / 8, TILES[64], device=inputs[0].device, options=OPTIONS
    )
    compiled(*(memory[edge:-edge].view(2, N, 64) for memory in memories))
    out = memories[-1]
    assert torch.equal(out[edge:-edge], attention(*inputs, causal=True).flatten())
    assert (out[:edge] == 7).all()
    assert (out[-edge:] == 7).all()


# --- mistakes -------------------------------------------------------------------------------------


@T.macro
def no_rescale(scores, m, s, acc):
    module.merge_tile(scores, m, s, T.infinity("float32"))


def mask_after_the_maximum() -> dict[str, object]:
    """What is hidden wins the maximum, and weighs nothing only afterwards."""
    hidden = []

    def later(scores, query0, key0, Nq, Nk, causal):
        hidden[:] = query0, key0, Nq, Nk, causal

    @T.macro
    def merge(scores, m, s, acc):
        query0, key0, Nq, Nk, causal = hidden
        m_old, tile_max, total = (T.alloc_fragment(m.shape, "float32") for _ in range(3))
        T.copy(m, m_old)
        T.reduce_max(scores, tile_max, dim=1)
        for i in T.Parallel(*m.shape):
            m[i] = T.max(m[i], tile_max[i])
        for i, j in T.Parallel(*scores.shape):
            sees = key0 + j < module.visible(query0 + i, Nq, Nk, causal)
            scores[i, j] = T.if_then_else(sees, T.exp2((scores[i, j] - m[i]) * LOG2E), 0)
        T.reduce_sum(scores, total, dim=1)
        for i in T.Parallel(*m.shape):
            s[i] = s[i] * T.exp2((m_old[i] - m[i]) * LOG2E) + total[i]
        for i, d in T.Parallel(*acc.shape):
            acc[i, d] *= T.exp2((m_old[i] - m[i]) * LOG2E)

    return {"mask_tile": later, "merge_scores": merge}


# mistake: what stands in for parts of the kernel, and the cases that must fail then, causal or not
MISTAKES = {
    "no rescale": (lambda: {"merge_scores": no_rescale}, True, {"random", "ascending", "ascending tiles"}),
    "mask after the maximum": (mask_after_the_maximum, True, {"ascending", "last key"}),
    "padding scores 0": (
        lambda: {"mask_tile": lambda *_: None},
        False,
        {"offset -20", "offset -10000", "equal weights"},
    ),
    "aligned to the first key": (
        lambda: {"visible": lambda query, Nq, Nk, causal: query + 1},
        True,
        {"more keys"},
    ),
}
MORE_KEYS: dict[str, Case] = {"more keys": lambda D, dtype: random(1, 1, SIDE, N, D, dtype)}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_seen(monkeypatch, mistake):
    changes, causal, must_fail = MISTAKES[mistake]
    for name, value in changes().items():
        monkeypatch.setattr(module, name, value)
    rows.kernel.cache_clear()
    failed = set()
    try:
        for case in must_fail:
            try:
                check(*(CASES | MORE_KEYS)[case](64, torch.float16), causal)
            except AssertionError:
                failed.add(case)
    finally:
        rows.kernel.cache_clear()
    assert failed == must_fail


# --- what is refused ------------------------------------------------------------------------------


def half(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.float16, device=DEVICE)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"q": [1.0]}, TypeError, "expected q to be a tensor, got list"),
        (
            {"k": half(2, 8, 3, 64).to_sparse()},
            TypeError,
            "expected k to be dense, got layout torch.sparse_coo",
        ),
        (
            {"q": half(2, 8, 3, 64).float()},
            TypeError,
            "expected q to be float16 or bfloat16, got torch.float32",
        ),
        ({"v": half(2, 8, 3, 64).bfloat16()}, TypeError, "got torch.float16 for q and torch.bfloat16 for v"),
        ({"v": half(2, 8, 3, 64).to("meta")}, ValueError, "expected one CUDA device or the CPU, got q on"),
        (
            {name: half(2, 8, 3, 64).to("meta") for name in "qkv"},
            ValueError,
            "expected one CUDA device or the CPU, got q on meta, q on meta",
        ),
        ({"q": half(8, 3, 64)}, ValueError, r"expected q of shape \(B, H, N, D\), got \(8, 3, 64\)"),
        ({"q": half(2, 8, 3, 80)}, ValueError, "expected a head dimension of 64 or 128, got 80"),
        (
            {"v": half(2, 8, 4, 64)},
            ValueError,
            r"k and v of one shape, got \(2, 8, 3, 64\) and \(2, 8, 4, 64\)",
        ),
        (
            {name: half(2, 4, 3, 64) for name in "kv"},
            ValueError,
            r"k and v have 4; pass k.repeat_interleave\(2, 1\)",
        ),
        (
            {name: half(2, 1, 3, 64) for name in "kv"},
            ValueError,
            r"k and v have 1; pass k.repeat_interleave\(8, 1\)",
        ),
        (
            {name: half(2, 0, 3, 64) for name in "kv"},
            ValueError,
            r"expected k and v of shape \(2, 8, Nk, 64\)",
        ),
        (
            {name: half(2, 3, 3, 64) for name in "kv"},
            ValueError,
            r"expected k and v of shape \(2, 8, Nk, 64\)",
        ),
        (
            {name: half(1, 8, 3, 64) for name in "kv"},
            ValueError,
            r"expected k and v of shape \(2, 8, Nk, 64\)",
        ),
        (
            {name: half(2, 8, 3, 128) for name in "kv"},
            ValueError,
            r"expected k and v of shape \(2, 8, Nk, 64\)",
        ),
        ({"causal": 1}, TypeError, "expected causal to be a bool, got 1"),
        ({"scale": "1"}, TypeError, "expected scale to be a number, got '1'"),
        ({"scale": True}, TypeError, "expected scale to be a number, got True"),
        ({"scale": NAN}, ValueError, "expected a scale that is finite in float32, got nan"),
        ({"scale": 1e39}, ValueError, "expected a scale that is finite in float32, got 1e\\+39"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_arguments_are_refused(monkeypatch, change, error, message):
    monkeypatch.setattr(module, "kernel", None)  # nothing is compiled or launched
    given = {"q": half(2, 8, 3, 64), "k": half(2, 8, 3, 64), "v": half(2, 8, 3, 64), "causal": False} | change
    with pytest.raises(error, match=f"^attention: .*{message}"):
        attention(given.pop("q"), given.pop("k"), given.pop("v"), **given)


# --- torch where a query sees no key: its backends differ, as the page says -------------------------


def masked() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """q, k, v and a mask that leaves no key to the first two queries: dense, scores of 0, values 1, 2, 3."""
    q = torch.zeros(1, 1, 5, 64, dtype=torch.float16, device=DEVICE)
    v = torch.tensor([1.0, 2.0, 3.0]).to(q).view(1, 1, 3, 1).expand(1, 1, 3, 64).contiguous()
    return q, v.clone(), v, torch.ones(5, 3, dtype=torch.bool, device=DEVICE).tril(-2)


def test_torchs_plain_operations_give_0_without_a_key():
    with sdpa_kernel(SDPBackend.MATH):
        out = scaled_dot_product_attention(*masked())
    assert (out[0, 0, :2] == 0).all()
    assert (out[0, 0, 2:] != 0).all()


@GPU
@pytest.mark.skipif(not torch.__version__.startswith("2.11."), reason="seen in torch 2.11 only")
def test_cudnn_gives_the_mean_of_all_values_without_a_key():
    """Torch takes cuDNN for no call while algorithms have to be deterministic, as in all other tests."""
    torch.use_deterministic_algorithms(False)
    given = masked()
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        if not can_use_cudnn_attention(SDPAParams(*given, 0.0, False, False)):
            pytest.skip("torch cannot take cuDNN here")
        out = scaled_dot_product_attention(*given)[0, 0, :2]
    torch.testing.assert_close(out, torch.full_like(out, 2))


# --- on a GPU -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("D", "dtype", "causal"), KERNELS)
def test_generated_cuda(D, dtype, causal, capfd):
    """Both products on the tensor cores of an H100 or H200, tiles loaded by TMA, no race, no warning.

    The threads that load and those that compute go through one tile at least: a block that ends while q is on
    its way writes into the memory of the next.
    """
    target = Target({"kind": "cuda", "arch": "sm_90"})
    program = attention_kernel(D, str(dtype).removeprefix("torch."), causal, 0.1, SHIPPED[D])
    config = {"tl.disable_data_race_check": False, **dict.fromkeys(OPTIONS, True)}
    with target, tilelang.tvm.transform.PassContext(config=config):
        source = tilelang.lower(program, target=target).kernel_source
    assert capfd.readouterr().err == ""
    assert source.count("tl::wgmma_ss<") == source.count("tl::wgmma_rs<") == 1  # q k^T; weights v
    assert source.count("tl::tma_load(") == 3
    assert len(re.findall(r"for \(int (t\w*) = 0; \1 < max\(.*, 1\);", source)) == 2


@GPU
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("D", TILES)
def test_beside_scaled_dot_product_attention(D, dtype, causal):
    """Where it has the same mask: as many queries as keys. Both are within the tolerance of the oracle."""
    q, k, v = (x.to(DEVICE) for x in random(2, 4, 2000, 2000, D, dtype))
    check(q, k, v, causal)
    out, theirs = attention(q, k, v, causal=causal), scaled_dot_product_attention(q, k, v, is_causal=causal)
    allowed = expected(q, k, v, causal)[1]
    assert ((out.double() - theirs.double()).abs() <= 2 * allowed).all()


@GPU
def test_more_heads_than_a_grid_has_rows():
    check(*random(700, 100, 3, 5, 64, torch.float16), causal=True)


@GPU
@pytest.mark.parametrize("causal", [False, True])
def test_the_same_bits_in_every_run(causal):
    q, k, v = (x.to(DEVICE) for x in random(2, 16, 1000, 1100, 128, torch.bfloat16))
    first = attention(q, k, v, causal=causal)
    assert all(torch.equal(attention(q, k, v, causal=causal), first) for _ in range(100))
