"""dim=0 on a square tile, with the result used beside the tile itself."""

import tilelang
import tilelang.language as T
from tvm.error import InternalError
from tvm.target import Target


@T.prim_func
def subtract_max(
    A: T.Tensor((16, 16), "float32"), B: T.Tensor((16, 16), "float32")
):
    with T.Kernel(1, threads=128):
        tile = T.alloc_fragment((16, 16), "float32")
        tile_max = T.alloc_fragment((16,), "float32")
        T.copy(A, tile)
        T.reduce_max(tile, tile_max, dim=0)
        for i, j in T.Parallel(16, 16):
            tile[i, j] = tile[i, j] - tile_max[i]
        T.copy(tile, B)


if __name__ == "__main__":
    target = Target({"kind": "cuda", "arch": "sm_90"})  # lowering needs no GPU
    try:
        with target:
            tilelang.lower(subtract_max, target=target)
    except InternalError as error:
        print("InternalError:", str(error).strip())
