"""The state depends neither on the cuts nor on the order of the pieces."""

from functools import reduce

import torch

from camp_softmax.reference import merge, tile_state

row = torch.tensor([3.0, 1, 4, 1, 5, 9, 2, 6])

for cut in ([8], [1, 7], [3, 3, 2], [1] * 8):
    forward = [tile_state(tile) for tile in row.split(cut)]
    back = forward[::-1]
    for order, states in ("left to right", forward), ("right to left", back):
        m, s = reduce(merge, states)
        print(f"cut {cut!s:26} {order}: m = {m:.0f}, s = {s:.5f}")
