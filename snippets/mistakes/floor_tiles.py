"""M // block_m tiles in the first scan: the tail counts for nothing."""

import tilelang.language as T
import torch

from camp_softmax.tilelang import build
from camp_softmax.tilelang.online import LOG2E, LOWEST, load_tile, merge_tile


# --8<-- [start:kernel]
def softmax_kernel(M: int, dtype: str, block_n=16, block_m=256, threads=256):
    N = T.dynamic("N")

    @T.prim_func
    def floor_tiles(A: T.Tensor((N, M), dtype), B: T.Tensor((N, M), dtype)):
        with T.Kernel(T.ceildiv(N, block_n), threads=threads) as pid:
            tile = T.alloc_fragment((block_n, block_m), "float32")
            m = T.alloc_fragment((block_n,), "float32")
            s = T.alloc_fragment((block_n,), "float32")
            row0 = pid * block_n
            T.fill(m, LOWEST)
            T.fill(s, 0)
            for k in T.Serial(M // block_m):  # rounded down
                load_tile(A, tile, row0, k * block_m)
                merge_tile(tile, m, s, T.infinity("float32"))
            for k in T.Serial(T.ceildiv(M, block_m)):
                col0 = k * block_m
                load_tile(A, tile, row0, col0)
                for i, j in T.Parallel(block_n, block_m):
                    if row0 + i < N and col0 + j < M:
                        e = T.exp2((tile[i, j] - m[i]) * LOG2E)
                        B[row0 + i, col0 + j] = e / s[i]

    return floor_tiles
    # --8<-- [end:kernel]


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for last in 0.0, 9.0:
        x = torch.zeros(1, 513, device=device)
        x[0, 512] = last
        y = torch.empty_like(x)
        build(softmax_kernel(513, "float32"), device)(x, y)
        total = y.sum().item()
        print(f"512 zeros and {last:g}: row sum {total:.3f}")
