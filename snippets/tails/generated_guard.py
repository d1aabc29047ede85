"""The guard that TileLang adds to a store that has none."""

import tilelang
import tilelang.language as T
from tvm.target import Target

N, M = 17, 513


@T.prim_func
def copy(A: T.Tensor((N, M), "float32"), B: T.Tensor((N, M), "float32")):
    with T.Kernel(T.ceildiv(N, 16), T.ceildiv(M, 256), threads=256) as (n, m):
        for i, j in T.Parallel(16, 256):
            B[n * 16 + i, m * 256 + j] = A[n * 16 + i, m * 256 + j]


target = Target({"kind": "cuda", "arch": "sm_90"})  # lowering needs no GPU
with target:
    source = tilelang.lower(copy, target=target).kernel_source
lines = [line.strip() for line in source.splitlines()]
print(*(line for line in lines if line.startswith("if (")), sep="\n")
