"""The CUDA of the two reductions in the kernel that ships."""

import tilelang
from tvm.target import Target

from camp_softmax.tilelang.online import softmax_kernel

target = Target({"kind": "cuda", "arch": "sm_90"})  # lowering needs no GPU
with target:
    program = softmax_kernel(513, "float32")
    source = tilelang.lower(program, target=target).kernel_source
print("16 rows of 256 columns, 256 threads")
for line in map(str.strip, source.splitlines()):
    if line.startswith(("tile_max[", "tile_sum[", "__syncthreads")):
        print(line.split("::run")[0])
