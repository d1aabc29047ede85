"""The clusters that the plan makes of a row, and what they have on the way."""

import torch

from camp_softmax.cuda import plan

MIB = 2**20

print("         blocks threads stages KiB clusters MiB")
for dtype in torch.float32, torch.bfloat16:
    print(str(dtype).removeprefix("torch."))
    for M in 32768, 65536, 131072, 262144, 524288:
        made = plan.cluster(M, dtype, "SOFTMAX", aligned=True)
        found = dict(made.constants)
        part = made.shared  # bytes: a ring holds one row, registers another
        flying = 2 * part * made.blocks * made.in_flight / MIB
        sizes = made.blocks, int(found["THREADS"]), int(found["STAGES"])
        columns = *sizes, part // 2**10, made.in_flight, flying
        print("  {:6} {:6} {:7} {:6} {:3} {:8} {:3.0f}".format(M, *columns))
