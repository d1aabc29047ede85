"""A fragment that is added to before anything was put into it."""

import os
import tempfile

import tilelang
import tilelang.language as T
from tvm.target import Target


@T.prim_func
def sums(A: T.Tensor((16, 256), "float32"), B: T.Tensor((16,), "float32")):
    with T.Kernel(1, threads=256):
        tile = T.alloc_fragment((16, 256), "float32")
        s = T.alloc_fragment((16,), "float32")
        T.copy(A, tile)
        T.reduce_sum(tile, s, dim=1, clear=False)  # missing: T.fill(s, 0)
        T.copy(s, B)


target = Target({"kind": "cuda", "arch": "sm_90"})  # lowering needs no GPU
with tempfile.TemporaryFile("w+") as log:
    stderr = os.dup(2)
    os.dup2(log.fileno(), 2)  # the warning comes from C++
    with target:
        source = tilelang.lower(sums, target=target).kernel_source
    os.dup2(stderr, 2)
    log.seek(0)
    warnings = [line for line in log if "[1]" in line]
print("warning:", "".join(warnings).strip())
print("all that the CUDA does with s:")
for line in source.splitlines():
    if " s[" in line:
        print(" ", line.strip())
