"""The state of a row from four threads, then merged in a tree."""

import torch

from camp_softmax.reference import LOWEST, State, merge

ROW = torch.tensor([3.0, 1, 4, 1, 5, 9, 2, 6])
BLOCK = 4


def show(states: list[State]) -> None:
    print("  ".join(f"({m:.0f}, {s:.3f})" for m, s in states))


own = [State(torch.tensor(LOWEST), torch.tensor(0.0))] * BLOCK
for j, x in enumerate(ROW):
    t = j % BLOCK  # the thread of element j
    own[t] = merge(own[t], State(x, torch.tensor(1.0)))
show(own)

n = BLOCK // 2
while n > 0:
    own = [merge(own[t], own[t + n]) for t in range(n)]
    show(own)
    n //= 2
