"""The maximum of each row, in the compiler's layout and in one of our own."""

import tilelang
import tilelang.language as T
from tvm.target import Target


# --8<-- [start:kernel]
def warp_a_row(i, j):
    """The thread of element (i, j), and its register there."""
    return i // 2 * 32 + j // 4 % 32, i % 2 * 8 + j // 128 * 4 + j % 4


def row_max(own: bool):
    @T.prim_func
    def row_max(
        A: T.Tensor((16, 256), "float32"), B: T.Tensor((16,), "float32")
    ):
        with T.Kernel(1, threads=256):
            tile = T.alloc_fragment((16, 256), "float32")
            tile_max = T.alloc_fragment((16,), "float32")
            if own:
                T.annotate_layout({tile: T.Fragment((16, 256), warp_a_row)})
            T.copy(A, tile)
            T.reduce_max(tile, tile_max, dim=1)
            T.copy(tile_max, B)

    return row_max
    # --8<-- [end:kernel]


target = Target({"kind": "cuda", "arch": "sm_90"})  # lowering needs no GPU
for own in False, True:
    with target:
        cuda = tilelang.lower(row_max(own), target=target).kernel_source
    print("layout of our own" if own else "layout of the compiler")
    for line in map(str.strip, cuda.splitlines()):
        if "__shared__" in line or "__syncthreads" in line:
            print(">", line)
        elif line.startswith("float ") or "AllReduce" in line:
            print(" ", line.partition("::run")[0])
