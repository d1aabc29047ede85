"""Who does the 16 x 256 iterations of a T.Parallel, in the generated CUDA."""

import re

import tilelang
import tilelang.language as T
from tvm.target import Target

N, M = 15, 255  # one tile, with a row and a column to spare


def double(threads: int):
    @T.prim_func
    def program(A: T.Tensor((N, M), "float32")):
        with T.Kernel(1, threads=threads):
            for i, j in T.Parallel(16, 256):
                if i < N and j < M:
                    A[i, j] *= 2

    return program


target = Target({"kind": "cuda", "arch": "sm_90"})  # lowering needs no GPU
for threads in (256, 128):
    with target:
        source = tilelang.lower(double(threads), target=target).kernel_source
    loop = re.search(r"for \(int i = 0; i < (\d+); \+\+i\)", source)
    element = re.search(r"A\[.*?\](?= =)", source)
    total = threads * int(loop[1])
    print(f"{threads} threads x {loop[1]} iterations = {total}")
    print(f"  {loop[0]}")
    print(f"    {element[0]}")
