"""The new tile's sum is added; the old one keeps its own scale."""

import tilelang.language as T
import torch

from camp_softmax.tilelang import build, online
from camp_softmax.tilelang.online import LOG2E


@T.macro
def merge_tile(tile, m, s, cap):
    rows, columns = tile.shape
    tile_max = T.alloc_fragment((rows,), "float32")
    tile_sum = T.alloc_fragment((rows,), "float32")
    T.reduce_max(tile, tile_max, dim=1)
    for i in T.Parallel(rows):
        m[i] = T.min(T.max(m[i], tile_max[i]), cap)
    for i, j in T.Parallel(rows, columns):
        tile[i, j] = T.exp2((tile[i, j] - m[i]) * LOG2E)
    T.reduce_sum(tile, tile_sum, dim=1)
    for i in T.Parallel(rows):
        s[i] = s[i] + tile_sum[i]  # the old s belongs to the old m


if __name__ == "__main__":
    online.merge_tile = merge_tile  # the rest is the kernel that ships
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kernel = build(online.softmax_kernel(8, "float32", block_m=4), device)
    descending = [9.0, 6, 5, 4, 3, 2, 1, 1]
    for name, row in (
        ("descending", descending),
        ("ascending", descending[::-1]),
    ):
        x = torch.tensor([row], device=device)
        y = torch.empty_like(x)
        kernel(x, y)
        weights = " ".join(f"{weight:.3f}" for weight in y[0].tolist())
        print(f"{name:10} {weights}   sum {y.sum().item():.3f}")
