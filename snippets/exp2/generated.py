"""The exponentials of merge_tile, in the CUDA that TileLang generates."""

import re

import tilelang
from tvm.target import Target

from camp_softmax.tilelang.online import softmax_kernel

target = Target({"kind": "cuda", "arch": "sm_90"})  # lowering needs no GPU
with target:
    program = softmax_kernel(513, "float32")
    cuda = tilelang.lower(program, target=target).kernel_source
first = cuda.index("exp2f(")
start, end = cuda.rindex("for (", 0, first), cuda.index("\n    }", first)
for line in cuda[start:end].splitlines():
    if not re.search(r"\.[yzw] = ", line):  # as .x, for three more columns
        print(">" if ".x = " in line else " ", line.strip())
print("in the whole kernel: exp2f", cuda.count("exp2f("), "times,", end=" ")
print("expf", cuda.count("expf("), "times")
