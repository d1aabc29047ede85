"""FlashAttention beside torch's scaled_dot_product_attention: checked against float64, then timed in turns.

As in measure.py, a ratio compares medians of one run. What is compared is the time of the same attention,
causal or not; TFLOP/s count two products of the scores that are seen, whatever a kernel computes.
"""

import functools
import math
from collections import deque
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend
from torch.nn.functional import scaled_dot_product_attention

from camp_softmax.bench.measure import (
    INPUTS,
    WARM_UP,
    Case,
    Held,
    Launch,
    Measurement,
    Outcome,
    WrongError,
    check_complete,
    clock,
    first_call,
    give_up,
    summary,
    timed,
)
from camp_softmax.bench.peers import Call
from camp_softmax.reference import UNIT_ROUNDOFF, smallest_subnormal

HEADS = {"cuda": (4, 16), "cpu": (1, 2)}  # batch, heads


def expected(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float | None = None
) -> tuple[Tensor, Tensor]:
    """Attention in float64, and how far a correct kernel may be from it.

    With u half a unit in the last place of a float32, and h of q's dtype:

    - A score is a sum of products, so it is off by u times the sum of their sizes for each addition, and for
      the scale and its rounding; the exponent by 4 u |x - m| more, as in `reference.rtol`. An absolute error
      of an exponent is a relative error of a weight, and, averaged, of the sum that it is divided by.
    - A weight is rounded by h before it meets v. Where float16 is subnormal, by 2^-25 beside a largest of 1.
    - 16 u for exp2, the division and what else happens once; u for each addition of a weighted value.
    - The output is rounded by h.

    Args:
        q: (..., Nq, D), float16 or bfloat16.
        k: (..., Nk, D).
        v: (..., Nk, D).
        causal: query i sees the keys up to i + Nk - Nq only.
        scale: 1 / sqrt(D) if None.

    Returns:
        two float64 tensors of q's shape: the result, 0 for a query without keys, and the largest |error|.

    Example:
        >>> q, v = torch.zeros(1, 64).half(), torch.tensor([[1.0], [2.0]]).half().expand(2, 64)
        >>> want, allowed = expected(q, torch.zeros(2, 64).half(), v, causal=False)
        >>> want[0, 0].item(), f"{allowed[0, 0].item():.1e}"
        (1.5, '1.5e-03')
    """
    dtype, (Nq, D), Nk = q.dtype, q.shape[-2:], k.shape[-2]
    q, k, v = q.double(), k.double(), v.double()
    scale = 1 / math.sqrt(D) if scale is None else scale
    x = scale * q @ k.mT
    if causal:
        seen = torch.ones(Nq, Nk, dtype=torch.bool, device=x.device).tril(Nk - Nq)
        x = x.masked_fill(~seen, -torch.inf)
    m = x.amax(-1, keepdim=True).clamp(min=torch.finfo(torch.float64).min)
    s = (x - m).exp().sum(-1, keepdim=True)
    weights = torch.where(s == 0, 0, (x - m).exp() / s)
    want = weights @ v

    u, h = UNIT_ROUNDOFF[torch.float32], UNIT_ROUNDOFF[dtype]
    additions = (q != 0).sum(-1, keepdim=True) + 4
    exponent = u * (additions * abs(scale) * (q.abs() @ k.abs().mT) + 4 * (x - m).abs())
    off = weights * exponent.where(weights > 0, 0)
    relative = weights * (h + (16 + Nk) * u) + off + weights * off.sum(-1, keepdim=True)
    subnormal = smallest_subnormal(dtype) / 2 / s.clamp(min=1)
    return want, (relative + subnormal) @ v.abs() + h * want.abs() + smallest_subnormal(dtype)


def cases(device: str) -> list[Case]:
    """What is timed: each head has N queries and keys of M elements."""
    if device == "cpu":
        return [Case("attention", torch.float16, 64, 64, device)]
    return [
        Case("attention", dtype, 4096, M, device)
        for dtype in (torch.float16, torch.bfloat16)
        for M in (64, 128)
    ]


def candidates() -> dict[str, Call]:
    """By name; each takes q, k and v as one tensor. Those that are causal end in ".causal"."""
    from camp_softmax.tilelang.attention import attention  # the rest of the benchmark does without TileLang

    def of_three(operator: Callable[..., Tensor], **options: bool) -> Call:
        return lambda x: operator(*x, **options)

    return {
        "sdpa": of_three(scaled_dot_product_attention),
        "tilelang": of_three(attention),
        "sdpa.causal": of_three(scaled_dot_product_attention, is_causal=True),
        "tilelang.causal": of_three(attention, causal=True),
    }


def operations(case: Case, causal: bool) -> int:
    """Multiplications and additions of two products: for each score that is seen, 4 M.

    Example:
        >>> operations(Case("attention", torch.float16, 64, 128, "cpu"), causal=True)  # 2 heads
        2129920
    """
    seen = case.N * (case.N + 1) // 2 if causal else case.N**2
    return math.prod(HEADS[case.device]) * seen * 4 * case.M


@torch.no_grad()
def measure(case: Case, rounds: int) -> Outcome:
    """Checks the candidates on a case, then times one launch of each in every round.

    Raises:
        LostDeviceError: a candidate killed the CUDA context.
        RuntimeError: there is no time of torch's to compare with.
    """
    outcome = Outcome()
    ready: dict[str, tuple[float, float]] = {}
    generator = torch.Generator(case.device).manual_seed(case.N * case.M)
    shape = (3, *HEADS[case.device], case.N, case.M)  # q, k and v
    inputs = [
        torch.empty(shape, dtype=case.dtype, device=case.device).normal_(generator=generator)
        for _ in range(INPUTS)
    ]
    launches: dict[str, list[Launch]] = {}
    for name, call in candidates().items():
        try:
            torch.full(shape[1:], torch.nan, dtype=case.dtype, device=case.device)  # handed out next
            y, seconds = first_call(call, inputs[0])
            ready[name] = round(check(y, inputs[0], name.endswith("causal")), 4), round(seconds, 3)
            launches[name] = [functools.partial(call, x) for x in inputs]
        except Exception as error:
            give_up(outcome, case, name, error)
    held: Held = deque(maxlen=INPUTS - 1)
    timed(case, launches, WARM_UP, held, outcome)
    found = {name: summary(times) for name, times in timed(case, launches, rounds, held, outcome).items()}
    for name, (us, low, high) in found.items():
        causal = name.endswith("causal")
        torchs = found.get("sdpa.causal" if causal else "sdpa")
        if torchs is None:
            raise RuntimeError(f"{case.label()}: torch failed: {outcome.failures}")
        worst, seconds = ready[name]
        outcome.measurements.append(
            Measurement(
                case.dtype_name, case.N, case.M, name, us, low, high,
                ratio=round(torchs[0] / us, 4),
                error=worst,
                first_s=seconds,
                tflops=float(f"{operations(case, causal) / us / 1e6:.4g}"),
            )
        )  # fmt: skip
    return outcome


def check(y: Tensor, x: Tensor, causal: bool) -> float:
    """The largest error of y in its first and its last head, as a share of what `expected` allows.

    Raises:
        WrongError: that share exceeds 1, an element anywhere is NaN, or y has not the shape, dtype and
            device of a query.
    """
    check_complete(y, tuple(x.shape[1:]), x)
    worst = 0.0
    for place in ((0, 0), (-1, -1)):
        q, k, v = x[(slice(None), *place)]
        want, allowed = expected(q, k, v, causal)
        worst = max(worst, ((y[place].double() - want).abs() / allowed).max().item())
    if worst > 1:
        raise WrongError(f"wrong: {worst:.3g} times the tolerance off float64")
    return worst


def method(case: Case, rounds: int) -> dict[str, object]:
    """How the numbers of a record came about."""
    q = torch.empty(*HEADS[case.device], case.N, case.M, dtype=case.dtype, device=case.device)
    return {
        "rounds": rounds,
        "heads": "batch {} of {} heads".format(*HEADS[case.device]),
        "N": "queries and keys of a head",
        "M": "elements of a query, a key and a value",
        "launch": "call",
        "us": clock(case.device),
        "spread": "median over the rounds, quartiles low and high",
        "order": "each round launches every candidate once, in another order",
        "ratio": "us of sdpa, causal where the candidate is, over us",
        "tflops": "4 M operations for each score that is seen: two products, whatever the candidate computes",
        "backend": SDPBackend(torch._fused_sdp_choice(q, q, q)).name,
        "rotation": f"inputs and outputs take turns: {INPUTS}",
        "input": "normal",
        "check": "the first and the last head against float64; error 1 is the tolerance",
        "first_s": "seconds of the first call; caches on disk as they were found",
    }
