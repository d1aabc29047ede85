"""What T.copy puts into the lanes of a tile that lie outside the matrix."""

import tilelang.language as T
import torch

from camp_softmax.tilelang import build

M, BLOCK = 520, 256  # 520 columns are 3 tiles, the last with 8 real columns


def copied(safe: bool, pipelined: bool):
    @T.prim_func
    def pad(A: T.Tensor((16, M), "float32"), B: T.Tensor((16, 768), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((16, BLOCK), "float32")
            if safe:
                T.annotate_safe_value({A: -T.infinity("float32")})
            if pipelined:
                for k in T.Pipelined(3, num_stages=2):
                    T.copy(A[0, k * BLOCK], tile)
                    T.copy(tile, B[0, k * BLOCK])
            else:
                for k in T.Serial(3):
                    T.copy(A[0, k * BLOCK], tile)
                    T.copy(tile, B[0, k * BLOCK])

    return pad


NO_TMA = {"tl.disable_warp_specialized": True}
for name, safe, pipelined, options in (
    ("T.copy", False, False, {}),
    ("T.copy, safe value -inf", True, False, {}),
    ("the same, pipelined", True, True, {}),
    ("the same, no warp specialisation", True, True, NO_TMA),
):
    kernel = build(copied(safe, pipelined), "cuda", pass_configs=options)
    A = torch.ones(16, M, device="cuda")
    B = torch.full((16, 768), torch.nan, device="cuda")
    kernel(A, B)
    print(f"{name:34} column 519: {B[0, 519]:g}, column 520: {B[0, 520]:g}")
