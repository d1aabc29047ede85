"""What one tile knows of its row: a maximum and a sum, and both are its own."""

import torch

from camp_softmax import reference

row = torch.tensor([3.0, 1, 4, 1, 5, 9, 2, 6])
whole = reference.softmax(row).split(3)

for tile, weights in zip(row.split(3), whole, strict=True):
    tile_max = tile.max()
    exp_tile = torch.exp(tile - tile_max)
    tile_sum = exp_tile.sum()
    alone = exp_tile / tile_sum
    print(f"tile {tile.tolist()}: max {tile_max:.0f}, sum {tile_sum:.3f}")
    print("  weights of the tile", [round(w, 3) for w in alone.tolist()])
    print("  weights of the row ", [round(w, 3) for w in weights.tolist()])
