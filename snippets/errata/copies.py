"""What T.copy fills in past the edge of a matrix, in the generated CUDA."""

import tilelang
import tilelang.language as T
from tvm.target import Target

M, BLOCK = 520, 256  # 520 columns are 3 tiles, the last with 8 real columns


def copied(safe: bool, pipelined: bool):
    @T.prim_func
    def pad(A: T.Tensor((16, M), "float32"), B: T.Tensor((16, 768), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((16, BLOCK), "float32")
            if safe:
                T.annotate_safe_value({A: -T.infinity("float32")})
            for k in T.Pipelined(3, num_stages=2 if pipelined else 0):
                T.copy(A[0, k * BLOCK], tile)
                T.copy(tile, B[0, k * BLOCK])

    return pad


NO_TMA = {"tl.disable_warp_specialized": True}
target = Target({"kind": "cuda", "arch": "sm_90"})  # lowering needs no GPU
for name, safe, pipelined, options in (
    ("T.copy", False, False, {}),
    ("T.copy, safe value -inf", True, False, {}),
    ("the same, pipelined", True, True, {}),
    ("the same, no warp specialisation", True, True, NO_TMA),
):
    with target, tilelang.tvm.transform.PassContext(config=options):
        program = copied(safe, pipelined)
        source = tilelang.lower(program, target=target).kernel_source
    print(name)
    lines = [line.strip().split(", (&")[0] for line in source.splitlines()]
    for line in dict.fromkeys(lines):  # a loop may have been unrolled
        if line.startswith(("float broadcast_var", "tl::tma_load(")):
            print(" ", line)
