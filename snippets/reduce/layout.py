"""The same tile with a layout that keeps each row inside one warp."""

import tilelang
import tilelang.language as T
from tvm.target import Target


def row_max_kernel(rows_in_warps: bool):
    @T.prim_func
    def row_max(
        A: T.Tensor((16, 256), "float32"), B: T.Tensor((16,), "float32")
    ):
        with T.Kernel(1, threads=256):
            tile = T.alloc_fragment((16, 256), "float32")
            m = T.alloc_fragment((16,), "float32")
            if rows_in_warps:
                T.annotate_layout({tile: T.Fragment((16, 256), place)})
            T.copy(A, tile)
            T.reduce_max(tile, m, dim=1)
            T.copy(m, B)

    return row_max


def place(i, j):
    """Which thread holds tile[i, j], and which of its 16 values it is."""
    thread = i % 8 * 32 + j // 4 % 32  # warp i % 8: rows i and i + 8
    return thread, i // 8 * 8 + j // 128 * 4 + j % 4


target = Target({"kind": "cuda", "arch": "sm_90"})  # lowering needs no GPU
for rows_in_warps in False, True:
    with target:
        program = row_max_kernel(rows_in_warps)
        source = tilelang.lower(program, target=target).kernel_source
    print("a row in one warp" if rows_in_warps else "the compiler's layout")
    for line in map(str.strip, source.splitlines()):
        if line.startswith(("float m[", "__sync", "m[i_1] = tl")):
            print(" ", line.split("::run")[0])
