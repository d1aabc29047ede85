"""The weights are written in the first scan, with the state so far."""

import tilelang.language as T
import torch

from camp_softmax.tilelang import build
from camp_softmax.tilelang.online import LOWEST, load_tile, merge_tile


# --8<-- [start:kernel]
def softmax_kernel(M: int, dtype: str, block_n=16, block_m=256, threads=256):
    N = T.dynamic("N")

    @T.prim_func
    def no_second_scan(A: T.Tensor((N, M), dtype), B: T.Tensor((N, M), dtype)):
        with T.Kernel(T.ceildiv(N, block_n), threads=threads) as pid:
            tile = T.alloc_fragment((block_n, block_m), "float32")
            m = T.alloc_fragment((block_n,), "float32")
            s = T.alloc_fragment((block_n,), "float32")
            row0 = pid * block_n
            T.fill(m, LOWEST)
            T.fill(s, 0)
            for k in T.Serial(T.ceildiv(M, block_m)):
                col0 = k * block_m
                load_tile(A, tile, row0, col0)
                merge_tile(tile, m, s, T.infinity("float32"))
                for i, j in T.Parallel(block_n, block_m):
                    if row0 + i < N and col0 + j < M:  # s is not final yet
                        B[row0 + i, col0 + j] = tile[i, j] / s[i]

    return no_second_scan
    # --8<-- [end:kernel]


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.tensor([[3.0, 1, 4, 1, 5, 9, 2, 6]], device=device)
    for block_m in 8, 4, 2:
        y = torch.empty_like(x)
        build(softmax_kernel(8, "float32", block_m=block_m), device)(x, y)
        weights = " ".join(f"{weight:.3f}" for weight in y[0].tolist())
        print(f"tiles of {block_m}: {weights}   sum {y.sum().item():.3f}")
    weights = " ".join(f"{w:.3f}" for w in torch.softmax(x, 1)[0].tolist())
    print(f"torch:      {weights}   sum 1.000")
