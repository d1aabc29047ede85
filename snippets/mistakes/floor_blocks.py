"""N // block_n blocks: the rows of the last, incomplete block are nobody's."""

import tilelang.language as T
import torch

from camp_softmax.tilelang import build
from camp_softmax.tilelang.online import LOG2E, LOWEST, load_tile, merge_tile


# --8<-- [start:kernel]
def softmax_kernel(M: int, dtype: str, block_n=16, block_m=256, threads=256):
    N = T.dynamic("N")

    @T.prim_func
    def floor_blocks(A: T.Tensor((N, M), dtype), B: T.Tensor((N, M), dtype)):
        with T.Kernel(N // block_n, threads=threads) as pid:  # rounded down
            tile = T.alloc_fragment((block_n, block_m), "float32")
            m = T.alloc_fragment((block_n,), "float32")
            s = T.alloc_fragment((block_n,), "float32")
            row0 = pid * block_n
            T.fill(m, LOWEST)
            T.fill(s, 0)
            for k in T.Serial(T.ceildiv(M, block_m)):
                load_tile(A, tile, row0, k * block_m)
                merge_tile(tile, m, s, T.infinity("float32"))
            for k in T.Serial(T.ceildiv(M, block_m)):
                col0 = k * block_m
                load_tile(A, tile, row0, col0)
                for i, j in T.Parallel(block_n, block_m):
                    if row0 + i < N and col0 + j < M:
                        e = T.exp2((tile[i, j] - m[i]) * LOG2E)
                        B[row0 + i, col0 + j] = e / s[i]

    return floor_blocks
    # --8<-- [end:kernel]


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kernel = build(softmax_kernel(513, "float32"), device)
    torch.manual_seed(0)
    for N in (16, 17, 19, 32):
        x = torch.randn(N, 513).to(device)
        y = torch.full_like(x, torch.nan)  # poison
        kernel(x, y)
        left = y.isnan().any(1).nonzero().flatten().tolist()
        print(f"{N} rows, {N // 16} block(s), rows still poisoned: {left}")
