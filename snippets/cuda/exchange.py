"""A row over the blocks of a cluster: each sends its state to all."""

import torch

from camp_softmax.reference import State, merge, tile_state

ROW = torch.tensor([3.0, 1, 4, 1, 5, 9, 2, 6])
CLUSTER = 4


def show(name: str, states: list[State]) -> None:
    print(f"{name:8}", "  ".join(f"({m:.0f}, {s:.3f})" for m, s in states))


parts = ROW.chunk(CLUSTER)
own = [tile_state(part) for part in parts]
show("own", own)

told = [[None] * CLUSTER for _ in range(CLUSTER)]  # a block's shared memory
for rank, state in enumerate(own):
    for other in range(CLUSTER):
        told[other][rank] = state  # st.async into the other's

for rank, states in enumerate(told):
    row = states[0]
    for state in states[1:]:
        row = merge(row, state)
    own_weights = torch.exp(parts[rank] - row.m) / row.s
    weights = " ".join(f"{weight:.4f}" for weight in own_weights)
    print(f"block {rank}: ({row.m:.0f}, {row.s:.3f}), writes {weights}")
