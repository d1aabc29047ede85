"""The oracle against torch and plain Python; the laws of the merge, each bound to a formula of a page.

A test marked `equation` holds the formula with that id: its text here is the text on the page.
"""

import itertools
import math
import runpy
from functools import reduce
from pathlib import Path

import hypothesis.strategies as st
import pytest
import tilelang.language as T
import torch
from hypothesis import given
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from camp_softmax import reference
from camp_softmax.cuda import plan
from camp_softmax.reference import State, merge, tile_state
from camp_softmax.tilelang.attention import visible
from cases import CASES, M, check_logsumexp, check_softmax

LOG2E = math.log2(math.e)
SNIPPETS = Path(__file__).parents[1] / "snippets"
block_reduce = runpy.run_path(str(SNIPPETS / "cuda" / "barriers.py"))["block_reduce"]
shuffle_xor = runpy.run_path(str(SNIPPETS / "cuda" / "butterfly.py"))["shuffle_xor"]
clocks = runpy.run_path(str(SNIPPETS / "race" / "clocks.py"))
parts = runpy.run_path(str(SNIPPETS / "cuda" / "edges.py"))["parts"]
traffic = runpy.run_path(str(SNIPPETS / "attention" / "traffic.py"))
LOWEST = torch.finfo(torch.float64).min  # the laws are tested in float64, where rounding is far away

FINITE = st.integers(-800, 800).map(lambda quarter: quarter / 4)  # sums and differences are exact
SCORE = FINITE | st.sampled_from([-math.inf, -1000.0, 1000.0])
FINITE_ROW = st.lists(FINITE, min_size=1, max_size=12)
ROW = st.lists(SCORE, min_size=1, max_size=12)


def state(row: list[float]) -> State:
    return tile_state(torch.tensor(row, dtype=torch.float64))


def assert_same(a: State, b: State) -> None:
    assert a.m == b.m
    torch.testing.assert_close(a.s, b.s, rtol=1e-13, atol=1e-300)


# --- equations ------------------------------------------------------------------------------------


@pytest.mark.equation(
    "eq-softmax",
    r"\operatorname{softmax}(x)_i = \frac{e^{x_i - m}}{\sum_j e^{x_j - m}}, \qquad m = \max_j x_j",
)
@given(FINITE_ROW)
def test_stable_softmax_is_softmax(row):
    """Against exp(x) / sum exp(x) in plain Python, which overflows nowhere in this range."""
    total = math.fsum(math.exp(x) for x in row)
    want = torch.tensor([math.exp(x) / total for x in row], dtype=torch.float64)
    torch.testing.assert_close(reference.softmax(torch.tensor(row)), want, rtol=1e-12, atol=1e-300)


@pytest.mark.equation("eq-naive", r"\operatorname{softmax}(x)_i = \frac{e^{x_i}}{\sum_j e^{x_j}}")
@pytest.mark.equation(
    "eq-weights",
    r"\operatorname{softmax}(x)_i = \frac{e^{x_i}}{\sum_{j=1}^{M} e^{x_j}}, \qquad i = 1, \dots, M",
)
@given(FINITE_ROW)
def test_softmax_is_exponentials_over_their_sum(row):
    total = math.fsum(math.exp(x) for x in row)
    want = torch.tensor([math.exp(x) / total for x in row], dtype=torch.float64)
    torch.testing.assert_close(
        reference.naive(torch.tensor(row, dtype=torch.float64)), want, rtol=1e-12, atol=0
    )
    assert want.sum().item() == pytest.approx(1)


@pytest.mark.equation(
    "eq-distribution",
    r"0 < \operatorname{softmax}(x)_i \le 1, \quad \sum_{i=1}^{M} \operatorname{softmax}(x)_i = 1",
)
@given(FINITE_ROW)
def test_weights_are_a_distribution(row):
    """In float64: in float32 a weight may underflow to 0."""
    weights = reference.softmax(torch.tensor(row))
    assert ((weights > 0) & (weights <= 1)).all()
    assert math.fsum(weights.tolist()) == pytest.approx(1, rel=1e-12)


@pytest.mark.equation(
    "eq-ratio", r"\frac{\operatorname{softmax}(x)_i}{\operatorname{softmax}(x)_k} = e^{x_i - x_k}"
)
@given(FINITE_ROW)
def test_a_difference_of_scores_is_a_ratio_of_weights(row):
    weights = reference.softmax(torch.tensor(row)).tolist()
    for (x, w), (y, v) in itertools.product(zip(row, weights, strict=True), repeat=2):
        assert w / v == pytest.approx(math.exp(x - y), rel=1e-12)


@pytest.mark.equation(
    "eq-subtract",
    r"\frac{e^{x_i}}{\sum_j e^{x_j}} = \frac{e^{x_i} / e^m}{\sum_j e^{x_j} / e^m}"
    r" = \frac{e^{x_i - m}}{\sum_j e^{x_j - m}}",
)
@given(FINITE_ROW, FINITE)
def test_any_number_may_be_subtracted(row, m):
    """On paper m is arbitrary; the maximum is the one that keeps float32 finite."""
    exponentials = [math.exp(x) for x in row]
    divided = [e / math.exp(m) for e in exponentials]
    shifted = [math.exp(x - m) for x in row]
    for a, b, c in zip(exponentials, divided, shifted, strict=True):
        weight = a / math.fsum(exponentials)
        assert b / math.fsum(divided) == pytest.approx(weight, rel=1e-12, abs=1e-300)
        assert c / math.fsum(shifted) == pytest.approx(weight, rel=1e-12, abs=1e-300)


@pytest.mark.equation("eq-cancel", r"\frac{e^{x_i + c}}{\sum_j e^{x_j + c}} = \frac{e^{x_i}}{\sum_j e^{x_j}}")
@given(FINITE_ROW, FINITE)
def test_a_number_added_to_the_row_cancels(row, c):
    added = [math.exp(x + c) for x in row]
    alone = [math.exp(x) for x in row]
    for a, b in zip(added, alone, strict=True):
        assert a / math.fsum(added) == pytest.approx(b / math.fsum(alone), rel=1e-12, abs=1e-300)


@pytest.mark.equation(
    "eq-bounds",
    r"0 \le e^{x_i - m} \le 1, \qquad 1 \le \sum_{j=1}^{M} e^{x_j - m} \le M, \qquad m = \max_j x_j",
)
@given(ROW.filter(lambda row: max(row) > -math.inf))
def test_with_the_maximum_subtracted_nothing_overflows(row):
    """In float32 too, where the exponential may be exactly 0."""
    x = torch.tensor(row)
    e = torch.exp(x - x.max())
    assert ((e >= 0) & (e <= 1)).all()
    assert 1 <= e.sum() <= len(row)


@pytest.mark.equation("eq-ceildiv", r"(P - 1)\,B < N \le P\,B, \qquad P = \lceil N / B \rceil")
@given(st.integers(1, 10**6), st.integers(1, 1024))
def test_ceildiv_is_the_fewest_blocks_that_hold_every_row(N, B):
    P = int(T.ceildiv(N, B))
    assert (P - 1) * B < N <= P * B


@pytest.mark.equation("eq-neutral-max", r"\max(x, -\infty) = x")
@given(SCORE)
def test_minus_infinity_never_wins_a_maximum(x):
    assert torch.maximum(torch.tensor(x), torch.tensor(-math.inf)) == x


@pytest.mark.equation("eq-neutral-sum", r"s + e^{-\infty - m} = s + 0 = s")
@given(FINITE, st.floats(0, 1e6, width=32))
def test_minus_infinity_adds_nothing(m, s):
    assert torch.tensor(s) + torch.exp(torch.tensor(-math.inf) - m) == s


@pytest.mark.equation("eq-base-two", r"e^x = 2^{x \log_2 e}")
@given(FINITE)
def test_a_power_of_e_is_a_power_of_two(x):
    assert 2 ** (x * LOG2E) == pytest.approx(math.exp(x), rel=1e-12)


@pytest.mark.equation("eq-log-two", r"\ln s = \frac{\log_2 s}{\log_2 e}")
@given(st.floats(1, 1e30))
def test_a_logarithm_changes_its_base(s):
    assert math.log2(s) / LOG2E == pytest.approx(math.log(s), rel=1e-12)


@pytest.mark.equation("eq-exponent", r"2^{x \log_2 e - m \log_2 e} = 2^{(x - m) \log_2 e} = e^{x - m}")
@given(FINITE, FINITE)
def test_the_constant_may_be_multiplied_before_or_after(x, m):
    """In float64, where the rounding of the products does not show."""
    want = math.exp(x - m)
    assert 2 ** (x * LOG2E - m * LOG2E) == pytest.approx(want, rel=1e-11)
    assert 2 ** ((x - m) * LOG2E) == pytest.approx(want, rel=1e-11)


@pytest.mark.equation("eq-dims", r"r_i = \max_j x_{ij}, \qquad c_j = \max_i x_{ij}")
@given(st.integers(1, 5), st.integers(1, 5), st.data())
def test_dim_is_the_index_that_runs(rows, columns, data):
    x = data.draw(st.lists(st.lists(SCORE, min_size=columns, max_size=columns), min_size=rows, max_size=rows))
    assert torch.tensor(x).amax(dim=1).tolist() == [max(row) for row in x]
    assert torch.tensor(x).amax(dim=0).tolist() == [max(column) for column in zip(*x, strict=True)]


@pytest.mark.equation("eq-barriers", r"1 + \log_2 B + 1 = 2 + \log_2 B")
@given(st.integers(0, 10), st.data())
def test_a_block_reduction_passes_a_barrier_a_level_and_two_more(level, data):
    """That of snippets/cuda/barriers.py, run without a GPU; what it returns is the maximum."""
    B = 2**level
    values = data.draw(st.lists(FINITE, min_size=B, max_size=B))
    scratch, results = [math.nan] * B, [None] * B

    def thread(t):
        results[t] = yield from block_reduce(t, values[t], scratch, max)

    passed = list(zip(*(thread(t) for t in range(B)), strict=True))
    assert len(passed) == 2 + math.log2(B)
    assert results == [max(values)] * B


@pytest.mark.equation("eq-before", r"a \prec b \iff c_a \le V_b[t_a]")
@given(st.integers(1, 4), st.data())
def test_a_vector_clock_knows_what_a_path_leads_from(threads, data):
    """Paths go from step to step of a thread, and over barriers; the clocks are those of the snippet."""
    times = [[int(t == u) for u in range(threads)] for t in range(threads)]
    paths: list[set[int]] = [set() for _ in range(threads)]  # to each thread, from the accesses so far
    accesses: list[tuple[int, int]] = []
    for step in data.draw(st.lists(st.integers(-1, threads - 1), max_size=20)):
        if step < 0:
            times = clocks["barrier"](times)
            paths = [set().union(*paths)] * threads
        else:
            known = {a for a, access in enumerate(accesses) if clocks["before"](*access, times[step])}
            assert known == paths[step]
            paths[step] = paths[step] | {len(accesses)}
            accesses.append((step, times[step][step]))


@pytest.mark.equation(
    "eq-moved",
    r"V_{\text{three}} = (3 + 2)\,N M b, \qquad V_{\text{two}} = (2 + 1)\,N M b, "
    r"\qquad \frac{V_{\text{three}}}{V_{\text{two}}} = \frac{5}{3}",
)
@given(st.integers(1, 10**6), st.integers(1, 10**6), st.sampled_from(list(reference.UNIT_ROUNDOFF)))
def test_two_passes_move_three_elements_where_three_move_five(N, M, dtype):
    b = dtype.itemsize
    three, two = (reference.bytes_moved(rung, (N, M), dtype) for rung in ("three_pass", "online"))
    assert (three, two) == ((3 + 2) * N * M * b, (2 + 1) * N * M * b)
    assert three * 3 == two * 5


@pytest.mark.equation(
    "eq-one-read",
    r"V_{\text{two}} = (2 + 1)\,N M b, \qquad V_{\text{one}} = (1 + 1)\,N M b, "
    r"\qquad \frac{V_{\text{two}}}{V_{\text{one}}} = \frac{3}{2}",
)
@given(st.integers(1, 10**6), st.integers(1, 10**6), st.sampled_from(list(reference.UNIT_ROUNDOFF)))
def test_one_read_moves_two_elements_where_two_passes_move_three(N, M, dtype):
    b = dtype.itemsize
    two, one, both = (reference.bytes_moved(r, (N, M), dtype) for r in ("online", "single_read", "cluster"))
    assert (two, one, both) == ((2 + 1) * N * M * b, (1 + 1) * N * M * b, one)
    assert two * 2 == one * 3


@pytest.mark.equation(
    "eq-butterfly",
    r"v_t \leftarrow \max\bigl(v_t,\, v_{t \oplus d}\bigr), \quad d = \tfrac{n}{2}, \tfrac{n}{4}, \dots, 1 "
    r"\qquad\Longrightarrow\qquad v_t = \max_j v_j",
)
@given(st.integers(0, 5), st.data())
def test_after_the_butterfly_every_lane_has_the_maximum(level, data):
    """With the shuffle of snippets/cuda/butterfly.py."""
    n = 2**level
    values = row = data.draw(st.lists(FINITE, min_size=n, max_size=n))
    d = n // 2
    while d > 0:
        values = [max(pair) for pair in zip(values, shuffle_xor(values, d), strict=True)]
        d //= 2
    assert values == [max(row)] * n


@pytest.mark.equation(
    "eq-parts",
    r"h = \min\bigl((-a) \bmod w,\; M\bigr), \qquad v = \Bigl\lfloor \frac{M - h}{w} \Bigr\rfloor, "
    r"\qquad t = M - h - w v",
)
@given(st.integers(0, 10**4), st.integers(1, 10**4), st.sampled_from([4, 8]))
def test_vectors_start_at_multiples_and_leave_less_than_one_at_each_end(index, M, w):
    """Of a row of a matrix that starts at a multiple: parts of snippets/cuda/edges.py."""
    a = index * M % w
    h, v, t = parts(index, M, w)
    assert h == min(-a % w, M)
    assert (v, t) == ((M - h) // w, M - h - w * v)
    assert 0 <= h < w > t >= 0
    assert v == 0 or (index * M + h) % w == 0


@pytest.mark.equation("eq-raise", r"2^{24}\, e^{x - m} = 2^{(x - m) \log_2 e \,+\, 24}")
@given(FINITE, FINITE)
def test_a_power_of_two_rides_along_in_the_exponent(x, m):
    assert 2**24 * math.exp(x - m) == pytest.approx(2 ** ((x - m) * LOG2E + 24), rel=1e-11)


@pytest.mark.equation(
    "eq-resident",
    r"r = \max\Bigl(32,\; 8 \Bigl\lceil \frac{e + 16}{8} \Bigr\rceil\Bigr), \qquad "
    r"B = \min\Bigl(32,\; \Bigl\lfloor \frac{64}{W} \Bigr\rfloor,\; "
    r"\Bigl\lfloor \frac{4 \lfloor 512 / r \rfloor}{W} \Bigr\rfloor\Bigr)",
)
@given(st.integers(1, 32), st.integers(1, 96))
def test_the_plan_counts_resident_blocks_by_their_registers(W, e):
    r = max(32, 8 * math.ceil((e + 16) / 8))
    B = min(32, 64 // W, 4 * (512 // r) // W)
    assert plan._resident(W, e) == B
    assert B * W * 32 * r <= 65536  # registers of a multiprocessor


@given(st.integers(1, 10**6), st.sampled_from([2, 4]))
def test_rows_of_so_many_bytes_lie_before_the_one_asked_for(M, b):
    """As many whole rows as fit: with one more, they would be too many."""
    A = 3 * 2**20
    a = A // (M * b) + 1
    assert plan.AHEAD == A
    assert (a - 1) * M * b <= A < a * M * b


@pytest.mark.equation(
    "eq-blocks",
    r"m = \max_k m_k, \qquad s = \sum_k s_k\, e^{m_k - m}",
)
@given(st.lists(ROW, min_size=1, max_size=16), st.integers(0, 3))
def test_the_states_of_blocks_make_the_state_of_the_row(blocks, idle):
    """In one step, with blocks that have no element of a short row among them."""
    states = [state(row) for row in blocks] + [State(torch.tensor(LOWEST), torch.tensor(0.0))] * idle
    m = max(own.m for own in states)
    s = sum(own.s * torch.exp(own.m - m) for own in states)
    row = state([x for block in blocks for x in block])
    assert m == row.m
    torch.testing.assert_close(s, row.s, rtol=1e-13, atol=1e-300, check_dtype=False)


@pytest.mark.equation(
    "eq-pieces",
    r"q = 8 \Bigl\lceil \frac{\lceil v / (4 C) \rceil}{8} \Bigr\rceil, \qquad "
    r"f_{k, p} = (p\, C + k)\, q",
)
@given(st.integers(0, 10**6), st.sampled_from([8, 16]))
def test_the_pieces_of_blocks_are_whole_lines_and_cover_the_row(v, C):
    """In the order of p and then of k they follow each other: those of one p are a window of C q vectors."""
    assert plan.STAGES == 4
    q = 8 * math.ceil(math.ceil(v / (4 * C)) / 8)
    f = [min((p * C + k) * q, v) for p in range(4) for k in range(C)] + [v]
    assert f[0] == 0
    assert f == sorted(f)
    assert all(first % 8 == 0 and end - first <= q for first, end in itertools.pairwise(f) if first < end)


@pytest.mark.equation(
    "eq-one-element",
    r"(m, s) \oplus (x, 1) = \bigl(m',\; s\, e^{m - m'} + e^{x - m'}\bigr), \qquad m' = \max(m, x)",
)
@given(FINITE_ROW, FINITE)
def test_an_element_joins_a_state(row, x):
    """Which is then the state of the row with that element."""
    m, s = state(row)
    larger = max(m.item(), x)
    assert_same(merge(State(m, s), state([x])), state([*row, x]))
    assert state([x]) == State(torch.tensor(x), torch.tensor(1.0))
    assert state([*row, x]).s.item() == pytest.approx(
        s.item() * math.exp(m.item() - larger) + math.exp(x - larger), rel=1e-13
    )


@pytest.mark.equation("eq-state", r"m = \max_{j \in J} x_j, \qquad s = \sum_{j \in J} e^{x_j - m}")
@given(FINITE_ROW)
def test_state(row):
    m, s = state(row)
    assert m == max(row)
    assert s.item() == pytest.approx(math.fsum(math.exp(x - max(row)) for x in row), rel=1e-13)


@pytest.mark.equation(
    "eq-merge",
    r"(m_a, s_a) \oplus (m_b, s_b) = \bigl(m,\; s_a e^{m_a - m} + s_b e^{m_b - m}\bigr),"
    r" \qquad m = \max(m_a, m_b)",
)
@given(FINITE_ROW, FINITE_ROW)
def test_merge(a, b):
    """Against the formula in plain Python."""
    (m_a, s_a), (m_b, s_b) = state(a), state(b)
    m = max(m_a.item(), m_b.item())
    s = s_a.item() * math.exp(m_a.item() - m) + s_b.item() * math.exp(m_b.item() - m)
    got = merge(state(a), state(b))
    assert got.m == m
    assert got.s.item() == pytest.approx(s, rel=1e-13)


@pytest.mark.equation(
    "eq-split",
    r"(m_{A \cup B},\, s_{A \cup B}) = (m_A, s_A) \oplus (m_B, s_B), \qquad A \cap B = \emptyset",
)
@given(ROW, st.data())
def test_any_split_gives_the_state_of_the_whole(row, data):
    cuts = sorted(data.draw(st.sets(st.integers(1, len(row)))) | {0, len(row)})
    tiles = [row[a:b] for a, b in itertools.pairwise(cuts)]
    assert_same(reduce(merge, map(state, tiles)), state(row))


@pytest.mark.equation("eq-identity", r"(m, s) \oplus (\ell, 0) = (m, s), \qquad \ell \le m")
@given(ROW)
def test_identity(row):
    """With the lowest finite number for any row, with -inf for a row that has a finite element."""
    zero = torch.tensor(0.0, dtype=torch.float64)
    a = state(row)
    neutral = [LOWEST, -math.inf] if max(row) > -math.inf else [LOWEST]
    for lowest in neutral:
        empty = State(torch.tensor(lowest, dtype=torch.float64), zero)
        assert merge(a, empty) == a
        assert merge(empty, a) == a


@pytest.mark.equation("eq-commutative", r"a \oplus b = b \oplus a")
@given(ROW, ROW)
def test_commutative(a, b):
    assert merge(state(a), state(b)) == merge(state(b), state(a))


@pytest.mark.equation("eq-associative", r"(a \oplus b) \oplus c = a \oplus (b \oplus c)")
@given(ROW, ROW, ROW)
def test_associative(a, b, c):
    a, b, c = state(a), state(b), state(c)
    assert_same(merge(merge(a, b), c), merge(a, merge(b, c)))


@pytest.mark.equation(
    "eq-shift",
    r"\operatorname{state}(x + c) = (m + c,\; s), \qquad"
    r" \operatorname{softmax}(x + c) = \operatorname{softmax}(x)",
)
@given(FINITE_ROW, FINITE)
def test_shift(row, c):
    shifted = [x + c for x in row]
    m, s = state(row)
    assert state(shifted) == State(m + c, s)
    x = torch.tensor(row, dtype=torch.float64)
    assert reference.softmax(x + c).equal(reference.softmax(x))


@pytest.mark.equation("eq-lse", r"L = m \log_2 e + \log_2 s = \log_2 \sum_{j \in J} 2^{x_j \log_2 e}")
@given(FINITE_ROW)
def test_lse_of_a_state(row):
    m, s = state(row)
    got = m.item() * LOG2E + math.log2(s)
    want = math.log2(math.fsum(2 ** (x * LOG2E) for x in row))
    assert got == pytest.approx(want, rel=1e-12, abs=1e-12)


@pytest.mark.equation(
    "eq-lse-merge",
    r"L_{\text{new}} = \mu + \log_2\bigl(2^{L_{\text{old}} - \mu} + 2^{L_{\text{tile}} - \mu}\bigr),"
    r" \qquad \mu = \max(L_{\text{old}}, L_{\text{tile}})",
)
@given(FINITE_ROW, FINITE_ROW)
def test_lse_merge_is_the_merge_of_states(old, tile):
    def lse(a: State) -> float:
        return a.m.item() * LOG2E + math.log2(a.s)

    l_old, l_tile = lse(state(old)), lse(state(tile))
    mu = max(l_old, l_tile)
    new = mu + math.log2(2 ** (l_old - mu) + 2 ** (l_tile - mu))
    assert new == pytest.approx(lse(merge(state(old), state(tile))), rel=1e-12, abs=1e-12)


@pytest.mark.equation(
    "eq-write", r"\operatorname{softmax}(x)_i = \frac{2^{(x_i - m) \log_2 e}}{s} = 2^{x_i \log_2 e - L}"
)
@given(FINITE_ROW)
def test_both_ways_to_write(row):
    m, s = state(row)
    lse = m.item() * LOG2E + math.log2(s)
    for x, want in zip(row, reference.softmax(torch.tensor(row)).tolist(), strict=True):
        assert 2 ** ((x - m.item()) * LOG2E) / s.item() == pytest.approx(want, rel=1e-11)
        assert 2 ** (x * LOG2E - lse) == pytest.approx(want, rel=1e-11)


@pytest.mark.equation("eq-from-pair", r"y_i = \frac{2^{(x_i - m) \log_2 e}}{s}")
@given(FINITE_ROW)
def test_weights_from_the_pair(row):
    m, s = state(row)
    for x, want in zip(row, reference.softmax(torch.tensor(row)).tolist(), strict=True):
        assert 2 ** ((x - m.item()) * LOG2E) / s.item() == pytest.approx(want, rel=1e-11)


@pytest.mark.equation("eq-from-lse", r"y_i = 2^{x_i \log_2 e - L}, \qquad L = m \log_2 e + \log_2 s")
@given(FINITE_ROW)
def test_weights_from_the_lse(row):
    m, s = state(row)
    lse = m.item() * LOG2E + math.log2(s)
    for x, want in zip(row, reference.softmax(torch.tensor(row)).tolist(), strict=True):
        assert 2 ** (x * LOG2E - lse) == pytest.approx(want, rel=1e-11)


WEIGHT = st.floats(1e-6, 1)
TOLERANCE = st.sampled_from([1e-8, 1e-5, 1e-4, 2e-3, 1e-2, 1e-1])
PART = st.sampled_from([0.0, 0.5, 0.99, 1.01, 2.0])  # of what is allowed: both sides of the limit, near it


@pytest.mark.equation("eq-close", r"|y_i - w_i| \le a + r\,|w_i|")
@given(WEIGHT, TOLERANCE, TOLERANCE, PART, st.sampled_from([-1, 1]))
def test_close_is_an_absolute_and_a_relative_part(w, a, r, part, sign):
    want = torch.tensor(w, dtype=torch.float64)
    got = want + sign * part * (a + r * w)
    assert torch.isclose(got, want, atol=a, rtol=r) == (part <= 1)


@pytest.mark.equation("eq-fake", r"y_i = c\,w_i: \qquad w_i \le \frac{a}{1 - c - r}")
@given(st.sampled_from([0.0, 0.5]), TOLERANCE, TOLERANCE, PART)
def test_a_share_of_the_weight_passes_where_the_weight_is_small(c, a, r, part):
    want = part * torch.tensor(a / (1 - c - r), dtype=torch.float64)
    assert torch.isclose(c * want, want, atol=a, rtol=r) == (part <= 1)


@pytest.mark.parametrize("dtype", reference.UNIT_ROUNDOFF, ids=str)
def test_what_each_operator_may_be_off_by(dtype):
    """Written out for columns of 3 elements."""
    x = torch.tensor([[-9.0, 2.0], [-5.0, 0.0], [-6.0, 2.0]], dtype=dtype)
    m = torch.tensor([-5.0, 2.0], dtype=torch.float64)
    u, smallest = 2.0**-24, torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    half_ulp = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}[dtype]
    once = 0 if dtype == torch.float32 else half_ulp
    sums = (16 + 3 + 3 / 256) * u
    wide = x.double()
    weights, logs, sum_ = wide.softmax(0), wide.log_softmax(0), wide.logsumexp(0)
    for operator, want, allowed in (
        ("softmax", weights, weights * (once + sums + 4 * u * (m - wide))),
        ("log_softmax", logs, logs.abs() * (2 * u + half_ulp) + sums),
        ("logsumexp", sum_, sum_.abs() * 2 * half_ulp + sums + 2 * u * m.abs()),
    ):
        got = reference.expected(operator, x, 0)
        torch.testing.assert_close(got[0], want, rtol=1e-12, atol=0)
        torch.testing.assert_close(got[1], allowed + smallest, rtol=1e-12, atol=0)
        want, allowed = reference.expected(operator, x[:0], 0)
        assert allowed.shape == want.shape
        assert not allowed.any()


@pytest.mark.equation(
    "eq-bound",
    r"|y_i - w_i| \le (16 + k + 4\,|x_i - m|)\,u\,w_i, \qquad k = \min(M, 256) + \frac{M}{256},"
    r" \qquad u = 2^{-24}",
)
@given(st.lists(st.floats(-35, 35, width=32), min_size=1, max_size=12), st.integers(1, 200))
def test_the_online_form_stays_within_the_bound(row, repeats):
    x = torch.tensor(row).repeat(repeats)
    M, u = len(x), 2.0**-24
    distance = (x - x.max()).abs().double()
    allowed = (16 + min(M, 256) + M / 256 + 4 * distance) * u
    torch.testing.assert_close(reference.rtol(torch.float32, M, distance), allowed, rtol=1e-12, atol=0)
    error = (reference.online(x, 256).double() - reference.softmax(x)).abs()
    assert (error <= allowed * reference.softmax(x)).all()


# --- attention ------------------------------------------------------------------------------------

SMALL = st.integers(-12, 12).map(lambda quarter: quarter / 4)
KEYS = st.lists(
    st.tuples(SCORE, SMALL, SMALL), min_size=1, max_size=12
)  # a score, and a value of two numbers
Weighted = tuple[Tensor, Tensor, Tensor]  # the state (m, s, a)


def weighted(keys: list[tuple[float, float, float]]) -> Weighted:
    x, *v = torch.tensor(keys, dtype=torch.float64).mT
    m, s = tile_state(x)
    return m, s, torch.stack(v) @ torch.exp(x - m)


def assert_weighted(got: Weighted, want: Weighted) -> None:
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-13, atol=1e-13)


@pytest.mark.equation(
    "eq-attention",
    r"x_j = \frac{q \cdot k_j}{\sqrt{D}}, \qquad o = \sum_{j=1}^{N_k} \operatorname{softmax}(x)_j\, v_j",
)
@given(st.integers(1, 5), st.integers(1, 4), st.data())
def test_attention_is_that_of_torch(Nk, D, data):
    def matrix(rows: int) -> list[list[float]]:
        row = st.lists(SMALL, min_size=D, max_size=D)
        return data.draw(st.lists(row, min_size=rows, max_size=rows))

    (q,), k, v = matrix(1), matrix(Nk), matrix(Nk)
    x = [math.fsum(a * b for a, b in zip(q, key, strict=True)) / math.sqrt(D) for key in k]
    weights = reference.softmax(torch.tensor(x, dtype=torch.float64)).tolist()
    o = [math.fsum(w * value[d] for w, value in zip(weights, v, strict=True)) for d in range(D)]
    want = scaled_dot_product_attention(*(torch.tensor([[y]], dtype=torch.float64) for y in ([q], k, v)))
    assert o == pytest.approx(want[0, 0, 0].tolist(), rel=1e-12, abs=1e-12)


@pytest.mark.equation(
    "eq-accumulator",
    r"m = \max_{j \in J} x_j, \qquad s = \sum_{j \in J} e^{x_j - m}, "
    r"\qquad a = \sum_{j \in J} e^{x_j - m}\, v_j",
)
@given(FINITE_ROW, SMALL)
def test_the_accumulator_is_s_where_every_value_is_1(row, value):
    """And value times s where all are the same."""
    m, s, a = weighted([(x, 1.0, value) for x in row])
    assert m == max(row)
    assert s.item() == pytest.approx(math.fsum(math.exp(x - max(row)) for x in row), rel=1e-13)
    torch.testing.assert_close(a, torch.stack([s, value * s]), rtol=1e-13, atol=0)


@pytest.mark.equation(
    "eq-merge-values",
    r"(m_A, s_A, a_A) \oplus (m_B, s_B, a_B) = "
    r"\bigl(m,\; e^{m_A - m} (s_A, a_A) + e^{m_B - m} (s_B, a_B)\bigr), \qquad m = \max(m_A, m_B)",
)
@pytest.mark.equation("eq-output", r"o = \frac{a}{s}")
@given(KEYS, st.data())
def test_weighted_values_may_be_merged_in_tiles_and_divided_once(keys, data):
    def merged(A: Weighted, B: Weighted) -> Weighted:
        (m_A, s_A, a_A), (m_B, s_B, a_B) = A, B
        m = torch.maximum(m_A, m_B)
        f_A, f_B = torch.exp(m_A - m), torch.exp(m_B - m)
        return m, s_A * f_A + s_B * f_B, a_A * f_A + a_B * f_B

    cuts = sorted(data.draw(st.sets(st.integers(1, len(keys)))) | {0, len(keys)})
    tiles = [weighted(keys[i:j]) for i, j in itertools.pairwise(cuts)]
    m, s, a = reduce(merged, data.draw(st.permutations(tiles)))
    assert_weighted((m, s, a), weighted(keys))
    x, *v = torch.tensor(keys, dtype=torch.float64).mT
    if s > 0:
        torch.testing.assert_close(a / s, torch.stack(v) @ torch.softmax(x, 0), rtol=1e-12, atol=1e-12)


@pytest.mark.equation(
    "eq-attention-bytes",
    r"V_{\text{stored}} = 4 H N (D + N)\, b, \qquad V_{\text{fused}} = 4 H N D\, b, "
    r"\qquad \frac{V_{\text{stored}}}{V_{\text{fused}}} = 1 + \frac{N}{D}",
)
@given(st.integers(1, 10**6))
def test_the_matrix_costs_more_the_longer_the_sequence(N):
    """With the counts of snippets/attention/traffic.py."""
    H, D, b = traffic["HEADS"], traffic["D"], traffic["BYTES"]
    stored, fused, _ = traffic["moved"](N)
    assert (stored, fused) == (4 * H * N * (D + N) * b, 4 * H * N * D * b)
    assert stored * D == fused * (D + N)


@pytest.mark.equation("eq-visible", r"n_i = \max(i + 1 + N_k - N_q,\; 0), \qquad i = 0, \dots, N_q - 1")
@given(st.integers(1, 12), st.integers(1, 12))
def test_the_last_query_sees_every_key(Nq, Nk):
    """That of the kernel, against torch's triangle with its corner at the last key."""
    n = [max(i + 1 + Nk - Nq, 0) for i in range(Nq)]
    assert n == [max(visible(i, Nq, Nk, causal=True), 0) for i in range(Nq)]
    assert n == torch.ones(Nq, Nk).tril(Nk - Nq).sum(1).tolist()
    assert n[-1] == Nk


# --- what a kernel takes at least -------------------------------------------------------------------

RATE = st.floats(1e9, 1e15)  # bytes or operations a second
COUNT = st.integers(1, 100)


@pytest.mark.equation("eq-intensity", r"I = \frac{F}{(r + w)\, b}")
@given(st.sampled_from(sorted(reference.SCANS)), st.sampled_from([torch.float32, torch.bfloat16]), COUNT)
def test_intensity_is_operations_over_the_bytes_of_the_model(rung, dtype, F):
    (r, w), b, shape = reference.SCANS[rung], dtype.itemsize, (17, 513)
    operations = F * math.prod(shape)
    assert operations / reference.bytes_moved(rung, shape, dtype) == pytest.approx(F / ((r + w) * b))


@pytest.mark.equation("eq-least-time", r"t \ge \max\Bigl(\frac{(r + w)\, b\, n}{B},\; \frac{F n}{P}\Bigr)")
@given(RATE, RATE, COUNT, COUNT, COUNT, st.floats(0, 1))
def test_no_overlap_of_moving_and_computing_takes_less(B, P, moves, F, n, overlap):
    moving, computing = moves * 4 * n / B, F * n / P
    t = moving + computing - overlap * min(moving, computing)
    assert t >= max(moving, computing) * (1 - 1e-12)
    assert moving + computing - min(moving, computing) == pytest.approx(max(moving, computing))  # attained


@pytest.mark.equation("eq-roofline", r"\frac{F n}{t} \le \min(I B,\; P)")
@given(RATE, RATE, COUNT, COUNT, COUNT, st.floats(1, 10))
def test_the_roof_is_the_least_time_turned_over(B, P, moves, F, n, slower):
    least = max(moves * 4 * n / B, F * n / P)
    roof = min(F / (moves * 4) * B, P)
    assert F * n / least == pytest.approx(roof)
    assert F * n / (slower * least) <= roof * (1 + 1e-12)


@pytest.mark.equation("eq-amdahl", r"S = \frac{1}{(1 - f) + f / g}")
@given(st.floats(0, 0.999), st.floats(1, 1e6), st.floats(1e-6, 1e3))
def test_amdahl(f, g, time):
    before = [f * time, (1 - f) * time]
    after = [before[0] / g, before[1]]
    S = 1 / ((1 - f) + f / g)
    assert sum(before) / sum(after) == pytest.approx(S)
    assert 1 - 1e-12 <= S <= 1 / (1 - f) * (1 + 1e-12)


# --- eager forms and oracle -------------------------------------------------------------------------


@given(ROW, st.integers(1, 13))
def test_online_is_softmax_for_any_tile(row, tile):
    x = torch.tensor(row, dtype=torch.float64)
    torch.testing.assert_close(reference.online(x, tile), torch.softmax(x, -1), equal_nan=True)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_oracle_is_torch_in_float64(dim):
    x = 50 * torch.randn(7, 11, generator=torch.Generator().manual_seed(0))
    x[0, 0], x[1, 1], x[2, 2], x[3] = torch.inf, torch.nan, -torch.inf, -torch.inf
    for ours, theirs in ((reference.softmax, torch.softmax), (reference.logsumexp, torch.logsumexp)):
        torch.testing.assert_close(ours(x, dim), theirs(x.double(), dim), equal_nan=True, rtol=1e-14, atol=0)
    assert reference.softmax(torch.empty(3, 0)).shape == (3, 0)


def test_naive_overflows_where_the_course_says():
    limit = math.log(torch.finfo(torch.float32).max)
    assert f"{limit:.2f}" == "88.72"
    assert torch.exp(torch.tensor(88.72)).isfinite()
    assert torch.exp(torch.tensor(88.73)).isinf()
    assert reference.naive(torch.tensor([88.73, 0.0])).isnan().any()


FAKES = {
    "off by twice the tolerance": lambda y: y * (1 + 2 * reference.rtol(torch.float32, M)),
    "zeros": torch.zeros_like,
    "half": lambda y: y / 2,
    "inf as 0": lambda y: y.nan_to_num(posinf=0, neginf=0),
    "inf of the other sign": lambda y: torch.where(y.isinf(), -y, y),
    "NaN as 0": lambda y: y.nan_to_num(nan=0.0, posinf=torch.inf, neginf=-torch.inf),
}


@pytest.mark.parametrize(
    ("fake", "case"),
    [
        ("off by twice the tolerance", "random"),
        ("zeros", "random"),
        ("half", "random"),
        ("NaN as 0", "all -inf"),
    ],
)
def test_the_comparison_rejects_wrong_softmax(fake, case):
    with pytest.raises(AssertionError, match="elements are wrong"):
        check_softmax(lambda x: FAKES[fake](torch.softmax(x.double(), -1)).float(), CASES[case]())


@pytest.mark.parametrize(
    ("fake", "case"),
    [
        ("zeros", "random"),
        ("half", "random"),
        ("inf as 0", "+inf"),
        ("inf as 0", "all -inf"),
        ("inf of the other sign", "+inf"),
        ("NaN as 0", "NaN first"),
        ("half", "large"),
    ],
)
def test_the_comparison_rejects_wrong_logsumexp(fake, case):
    with pytest.raises(AssertionError, match="elements are wrong"):
        check_logsumexp(lambda x: FAKES[fake](torch.logsumexp(x.double(), -1)).float(), CASES[case]())


def test_states_rejects_an_empty_tile():
    with pytest.raises(ValueError, match="at least 1 column, got 0"):
        list(reference.states(torch.zeros(3), 0))


def test_bytes_moved_counts_scans():
    elements = {rung: reference.bytes_moved(rung, (1,), torch.float32) / 4 for rung in reference.SCANS}
    assert elements == {
        "naive": 3, "three_pass": 5, "three_scan": 4, "online": 3, "single_read": 2, "cluster": 2
    }  # fmt: skip


@given(FINITE_ROW)
def test_three_scans_give_softmax(row):
    x = torch.tensor(row, dtype=torch.float64)
    torch.testing.assert_close(reference.safe(x), reference.softmax(x), rtol=1e-12, atol=1e-300)
