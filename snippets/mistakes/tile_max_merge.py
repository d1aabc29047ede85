"""The merge that is often printed, rescaled to the current tile's maximum."""

import tilelang.language as T
import torch

from camp_softmax.tilelang import build
from camp_softmax.tilelang.online import LOG2E, load_tile


# --8<-- [start:kernel]
def softmax_kernel(M: int, dtype: str, block_n=16, block_m=256, threads=256):
    N = T.dynamic("N")

    @T.prim_func
    def tile_max_merge(A: T.Tensor((N, M), dtype), B: T.Tensor((N, M), dtype)):
        with T.Kernel(T.ceildiv(N, block_n), threads=threads) as pid:
            tile = T.alloc_fragment((block_n, block_m), "float32")
            m = T.alloc_fragment((block_n,), "float32")
            s = T.alloc_fragment((block_n,), "float32")
            lse = T.alloc_fragment((block_n,), "float32")
            row0 = pid * block_n
            T.fill(lse, -T.infinity("float32"))
            for k in T.Serial(T.ceildiv(M, block_m)):
                load_tile(A, tile, row0, k * block_m)
                T.reduce_max(tile, m, dim=1)  # of this tile, not the row
                for i, j in T.Parallel(block_n, block_m):
                    tile[i, j] = T.exp2((tile[i, j] - m[i]) * LOG2E)
                T.reduce_sum(tile, s, dim=1)
                for i in T.Parallel(block_n):
                    old = T.exp2(lse[i] - m[i] * LOG2E)
                    lse[i] = m[i] * LOG2E + T.log2(old + s[i])
            for k in T.Serial(T.ceildiv(M, block_m)):
                col0 = k * block_m
                load_tile(A, tile, row0, col0)
                for i, j in T.Parallel(block_n, block_m):
                    if row0 + i < N and col0 + j < M:
                        x = tile[i, j] * LOG2E
                        B[row0 + i, col0 + j] = T.exp2(x - lse[i])

    return tile_max_merge
    # --8<-- [end:kernel]


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kernel = build(softmax_kernel(8, "float32", block_m=4), device)
    rows = {
        "ordinary": [3.0, 1, 4, 1, 5, 9, 2, 6],
        "descending tiles": [1000.0] * 4 + [-1000.0] * 4,
        "first tile -inf": [-torch.inf] * 4 + [1.0, 5, 9, 2],
    }
    for name, row in rows.items():
        x = torch.tensor([row], device=device)
        y = torch.empty_like(x)
        kernel(x, y)
        for who, weights in (("kernel", y), ("torch", torch.softmax(x, 1))):
            shown = " ".join(f"{weight:.4f}" for weight in weights[0].tolist())
            print(f"{name:16} {who:6}", shown)
