"""Two rows of four, reduced over either dimension."""

import tilelang.language as T
import torch

from camp_softmax.tilelang import build

N, M = 2, 4
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def reduce_kernel(dim: int):
    left = (M, N)[dim]  # dim itself is gone

    @T.prim_func
    def reduce(
        A: T.Tensor((N, M), "float32"),
        largest: T.Tensor((left,), "float32"),
        total: T.Tensor((left,), "float32"),
    ):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((N, M), "float32")
            tile_max = T.alloc_fragment((left,), "float32")
            tile_sum = T.alloc_fragment((left,), "float32")
            T.copy(A, tile)
            T.reduce_max(tile, tile_max, dim=dim)
            T.reduce_sum(tile, tile_sum, dim=dim)
            T.copy(tile_max, largest)
            T.copy(tile_sum, total)

    return reduce


x = torch.tensor([[3.0, 1, 4, 1], [5, 9, 2, 6]], device=DEVICE)
for dim in 1, 0:
    largest, total = (x.new_empty((M, N)[dim]) for _ in range(2))
    build(reduce_kernel(dim), DEVICE)(x, largest, total)
    print(f"dim={dim}: {tuple(x.shape)} -> {tuple(largest.shape)}")
    print(f"  max {largest.tolist()}")
    print(f"  sum {total.tolist()}")
