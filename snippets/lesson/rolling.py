"""The running state, tile by tile, with its arithmetic written out."""

import torch

from camp_softmax.reference import LOWEST, State, merge, tile_state

row = torch.tensor([3.0, 1, 4, 1, 5, 9, 2, 6])
state = State(torch.tensor(LOWEST), torch.tensor(0.0))  # nothing read yet

print("tile   m     old s            tile's s        s")
for tile in row.split(3):
    old, new = state, tile_state(tile)
    state = merge(old, new)
    a, b = (torch.exp(part.m - state.m) for part in (old, new))
    numbers = " ".join(f"{x:.0f}" for x in tile.tolist())
    sums = f"{old.s:.3f} * {a:.4f} + {new.s:.3f} * {b:.4f}"
    print(f"{numbers:5}  {state.m:.0f}  {sums} = {state.s:.3f}")

weights = torch.exp(row - state.m) / state.s  # the second pass
print("weights", " ".join(f"{weight:.4f}" for weight in weights.tolist()))
