"""What the tile of the kernel holds once the first scan is over."""

import tilelang.language as T
import torch

from camp_softmax.tilelang import build
from camp_softmax.tilelang.online import LOWEST, load_tile, merge_tile

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@T.prim_func
def first_scan(
    A: T.Tensor((1, 8), "float32"),
    state: T.Tensor((2, 1), "float32"),
    left: T.Tensor((1, 4), "float32"),
):
    with T.Kernel(1, threads=32):
        tile = T.alloc_fragment((1, 4), "float32")
        m = T.alloc_fragment((1,), "float32")
        s = T.alloc_fragment((1,), "float32")
        T.fill(m, LOWEST)
        T.fill(s, 0)
        for k in T.Serial(2):
            load_tile(A, tile, 0, k * 4)
            merge_tile(tile, m, s, T.infinity("float32"))
        T.copy(m, state[0, 0:1])
        T.copy(s, state[1, 0:1])
        T.copy(tile, left)


def show(values: torch.Tensor) -> str:
    return " ".join(f"{value:.3f}" for value in values.flatten().tolist())


x = torch.tensor([[3.0, 1, 4, 1, 5, 9, 2, 6]], device=DEVICE)
state, left = x.new_empty(2, 1), x.new_empty(1, 4)
build(first_scan, DEVICE)(x, state, left)
print("m, s:                 ", show(state))
print("left in the tile:     ", show(left))
print("exp(x - 9) of 3 1 4 1:", show(torch.exp(x[:, :4] - 9)))
print("exp(x - 9) of 5 9 2 6:", show(torch.exp(x[:, 4:] - 9)))
