"""What each thread gets of the fragments of the online kernel."""

import re

import tilelang
from tvm.target import Target

from camp_softmax.tilelang.online import softmax_kernel

target = Target({"kind": "cuda", "arch": "sm_90"})  # lowering needs no GPU
for threads in 256, 128:
    program = softmax_kernel(513, "float32", threads=threads)
    with target:
        cuda = tilelang.lower(program, target=target).kernel_source
    print(f"{threads} threads, each with")
    for line, size in re.findall(r"^  (float \w+\[(\d+)\];)$", cuda, re.M):
        print(f"  {line:19} in all {threads} x {size} = {threads * int(size)}")
