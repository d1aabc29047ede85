"""A row sum by += in T.Parallel: no thread sees what the others add."""

import os
import tempfile

import tilelang
import tilelang.language as T
from tvm.target import Target


def program(reduce: bool):
    @T.prim_func
    def sums(A: T.Tensor((16, 256), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=256):
            tile = T.alloc_fragment((16, 256), "float32")
            s = T.alloc_fragment((16,), "float32")
            T.copy(A, tile)
            T.fill(s, 0)
            if reduce:
                T.reduce_sum(tile, s, dim=1)
            else:
                for i, j in T.Parallel(16, 256):
                    s[i] += tile[i, j]  # j belongs to 256 threads
            T.copy(s, B)

    return sums


target = Target({"kind": "cuda", "arch": "sm_90"})  # lowering needs no GPU
check = {"tl.disable_data_race_check": False}  # it is off by default
for reduce in False, True:
    with tempfile.TemporaryFile("w+") as log:
        stderr = os.dup(2)
        os.dup2(log.fileno(), 2)  # the warning comes from C++
        with target, tilelang.tvm.transform.PassContext(config=check):
            lowered = tilelang.lower(program(reduce), target=target)
        os.dup2(stderr, 2)
        log.seek(0)
        warnings = [line for line in log if "[1]" in line]
    print("T.reduce_sum" if reduce else "+= in T.Parallel")
    print("  exchanges:", lowered.kernel_source.count("AllReduce"))
    print("  warning:", "".join(warnings).strip() or "none")
