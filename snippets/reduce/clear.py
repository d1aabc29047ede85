"""What a reduction makes of the values that its output holds already."""

import tilelang.language as T
import torch

from camp_softmax.tilelang import build

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def rounds_kernel(clear: bool):
    @T.prim_func
    def rounds(
        A: T.Tensor((1, 8), "float32"),
        largest: T.Tensor((2, 1), "float32"),
        total: T.Tensor((2, 1), "float32"),
    ):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((1, 4), "float32")
            tile_max = T.alloc_fragment((1,), "float32")
            tile_sum = T.alloc_fragment((1,), "float32")
            T.fill(tile_max, 100)
            T.fill(tile_sum, 100)
            for k in T.Serial(2):
                T.copy(A[0, k * 4], tile)
                T.reduce_max(tile, tile_max, dim=1, clear=clear)
                T.reduce_sum(tile, tile_sum, dim=1, clear=clear)
                T.copy(tile_max, largest[k, 0:1])
                T.copy(tile_sum, total[k, 0:1])

    return rounds


x = torch.tensor([[-3.0, -1, -4, -1, -5, -9, -2, -6]], device=DEVICE)
for clear in True, False:
    largest, total = (x.new_empty(2, 1) for _ in range(2))
    build(rounds_kernel(clear), DEVICE)(x, largest, total)
    print(f"clear={clear}, both hold 100 before")
    for k in range(2):
        print(f"  tile {k}: max {largest[k, 0]:g}, sum {total[k, 0]:g}")
