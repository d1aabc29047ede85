"""T.Parallel over column tiles, where each needs the one before."""

import tilelang
import tilelang.language as T
from tvm.target import Target


@T.prim_func
def row_max(A: T.Tensor((16, 513), "float32"), B: T.Tensor((16,), "float32")):
    with T.Kernel(1, threads=256):
        tile = T.alloc_fragment((16, 256), "float32")
        m = T.alloc_fragment((16,), "float32")
        T.fill(m, T.min_value("float32"))
        for k in T.Parallel(T.ceildiv(513, 256)):
            T.copy(A[0, k * 256], tile)
            T.reduce_max(tile, m, dim=1, clear=False)
        T.copy(m, B)


if __name__ == "__main__":
    target = Target({"kind": "cuda", "arch": "sm_90"})  # lowering needs no GPU
    try:
        with target:
            tilelang.lower(row_max, target=target)
    except ValueError as error:
        message = str(error).split(". Got a")[0].strip()
        print("ValueError:", message.replace("] ", "]\n"))
