"""How many blocks a multiprocessor holds, and what that puts on its way."""

import torch

from camp_softmax.cuda import plan


def ceil(n: int, step: int) -> int:
    return -(-n // step) * step


def resident(warps: int, elements: int) -> int:
    """Of 64 warps, each quarter with 512 registers a lane."""
    registers = max(32, ceil(elements + 16, 8))  # of a thread
    return min(32, 64 // warps, 4 * (512 // registers) // warps)


for dtype, M in (torch.float32, 6000), (torch.bfloat16, 22000):
    width = 16 // dtype.itemsize
    vectors = M // width
    chosen = plan.single_read(M, dtype, "SOFTMAX", aligned=True)
    print(str(dtype).removeprefix("torch."), M)
    print("vectors  threads  blocks     KB")
    for items in 2, 3, 4, 6, 8:
        threads = ceil(vectors, items * plan.WARP) // items
        if threads > 1024 or items * width > 64:
            continue
        blocks = resident(threads // plan.WARP, items * width)
        kilobytes = blocks * M * dtype.itemsize / 1000
        mark = " <" if threads == chosen.threads else ""
        print(f"{items:7}  {threads:7}  {blocks:6}  {kilobytes:5.0f}{mark}")
