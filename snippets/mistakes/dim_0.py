"""The merge with dim=0: maxima and sums of columns, taken for those of rows."""

import logging
from textwrap import fill, indent

import tilelang.language as T
import torch

from camp_softmax.tilelang import build, online
from camp_softmax.tilelang.online import LOG2E


# --8<-- [start:merge]
@T.macro
def merge_tile(tile, m, s, cap):
    rows, columns = tile.shape
    tile_max = T.alloc_fragment((rows,), "float32")
    tile_sum = T.alloc_fragment((rows,), "float32")
    m_new = T.alloc_fragment((rows,), "float32")
    T.reduce_max(tile, tile_max, dim=0)  # down the columns
    for i in T.Parallel(rows):
        m_new[i] = T.min(T.max(m[i], tile_max[i]), cap)
    for i, j in T.Parallel(rows, columns):
        tile[i, j] = T.exp2((tile[i, j] - m_new[i]) * LOG2E)
    T.reduce_sum(tile, tile_sum, dim=0)
    for i in T.Parallel(rows):
        s[i] = s[i] * T.exp2((m[i] - m_new[i]) * LOG2E) + tile_sum[i]
        m[i] = m_new[i]
    # --8<-- [end:merge]


# --8<-- [start:run]
if __name__ == "__main__":
    online.merge_tile = merge_tile  # the rest is the kernel that ships
    device = "cuda" if torch.cuda.is_available() else "cpu"
    # TileLang logs the whole program beside its error
    logging.getLogger("tilelang.language.eager.builder").disabled = True
    try:
        online.softmax_kernel(8, "float32", block_n=16, block_m=256)
    except ValueError as error:
        print("tile 16 x 256: ValueError")
        print(indent(fill(str(error), 74), "  "))
    program = online.softmax_kernel(8, "float32", block_n=16, block_m=16)
    x = torch.tensor([[3.0, 1, 4, 1, 5, 9, 2, 6], [0.0] * 8], device=device)
    y = torch.empty_like(x)
    build(program, device)(x, y)
    print("tile 16 x 16: no error")
    for row in y:
        print(" ", " ".join(f"{weight:.2f}" for weight in row.tolist()))
    # --8<-- [end:run]
