"""The kernel with one barrier missing, in two orders of its eight threads."""

from collections.abc import Iterator
from math import exp
from operator import add

ROW = [3.0, 1, 4, 1, 5, 9, 2, 6]  # one element for each thread


def block_reduce(t: int, value: float, scratch: list[float], op) -> Iterator:
    scratch[t] = value
    yield "values"  # each yield is a __syncthreads()
    n = len(scratch) // 2
    while n > 0:
        if t < n:
            scratch[t] = op(scratch[t], scratch[t + n])
        yield f"level {n}"
        n //= 2
    result = scratch[0]
    yield "result"
    return result


def thread(t: int, scratch: list[float], found: dict) -> Iterator:
    m = yield from block_reduce(t, ROW[t], scratch, max)
    s = yield from block_reduce(t, exp(ROW[t] - m), scratch, add)
    found[t] = m, exp(ROW[t] - m) / s


def run(missing: str, order: list[int]) -> dict:
    scratch, found = [0.0] * 8, {}
    running = [thread(t, scratch, found) for t in order]
    while running:  # each in turn goes on to its next barrier, or to the end
        running = [one for one in running if any(b != missing for b in one)]
    return found


for missing in "none", "values", "level 4", "level 1", "result":
    print("missing:", missing)
    for order in [*range(8)], [*range(7, -1, -1)]:
        found = run(missing, order)
        m = " ".join(f"{found[t][0]:.0f}" for t in range(8))
        total = sum(weight for _, weight in found.values())
        print(f"  thread {order[0]} first: m {m}, sum {total:.2f}")
