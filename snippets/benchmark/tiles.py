"""What the tile and the threads decide about the kernel that is built."""

import re

import tilelang
from tvm.target import Target

from camp_softmax.tilelang.online import softmax_kernel

target = Target({"kind": "cuda", "arch": "sm_90"})  # lowering needs no GPU
print("        tile  threads   elements a thread   threads that reduce a row")
for block_n, block_m, threads in [
    (16, 256, 256),
    (16, 256, 128),
    (16, 128, 256),
    (1, 4096, 256),
]:
    with target:
        program = softmax_kernel(4096, "float32", block_n, block_m, threads)
        source = tilelang.lower(program, target=target).kernel_source
    held = block_n * block_m // threads
    lanes = int(re.search(r"AllReduce<tl::MaxOp, (\d+), 1,", source)[1])
    where = "in one warp" if lanes <= 32 else "through shared memory"
    shape = f"{block_n} x {block_m}"
    print(f"{shape:>12} {threads:8} {held:19}   {lanes:3}, {where}")
