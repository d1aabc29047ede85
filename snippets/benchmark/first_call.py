"""Which calls compile a kernel, and which use the one that is there."""

import tilelang
import torch

from camp_softmax.tilelang import online

compiled = []
compile_program = tilelang.compile


def counted(*args, **options):
    compiled.append(args)
    return compile_program(*args, **options)


tilelang.compile = counted  # the rest is the kernel that ships
device = "cuda" if torch.cuda.is_available() else "cpu"
calls = [
    (16, 256, torch.float32, 256),
    (16, 256, torch.float32, 256),
    (64, 256, torch.float32, 256),
    (64, 4096, torch.float32, 256),
    (64, 4096, torch.float32, 128),
    (64, 4096, torch.float16, 128),
    (16, 256, torch.float32, 256),
]
for N, M, dtype, block_m in calls:
    before = len(compiled)
    x = torch.zeros(N, M, dtype=dtype, device=device)
    online.softmax(x, block_m=block_m)
    what = "compiles" if len(compiled) > before else "-"
    print(f"{N:3} x {M:4}  {dtype}  tiles of {block_m}: {what}")
