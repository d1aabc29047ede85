"""The running state (m, s) of a row that is read three elements at a time."""

import torch

from camp_softmax.reference import LOWEST, State, merge, tile_state

row = torch.tensor([3.0, 1, 4, 1, 5, 9, 2, 6])
state = State(torch.tensor(LOWEST), torch.tensor(0.0))  # nothing read yet

for tile in row.split(3):
    new = tile_state(tile)
    old, state = state, merge(state, new)
    rescale = torch.exp(old.m - state.m)
    print(f"tile {tile.tolist()}: m = {new.m:.0f}, s = {new.s:.3f}")
    print(f"  old sum times {rescale:.4f}")
    print(f"  state: m = {state.m:.0f}, s = {state.s:.3f}")
