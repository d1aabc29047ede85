"""Which kernel `auto` takes for a row length, and the constants it gets."""

import torch

from camp_softmax.cuda import plan

FLOAT, BFLOAT = torch.float32, torch.bfloat16
LENGTHS = 128, 1000, 4096, 6000, 32768, 50257, 131072, 262144

print("           rows  blocks  threads  vectors")
for dtype in FLOAT, BFLOAT:
    print(str(dtype).removeprefix("torch."))
    for M in LENGTHS:
        short = M <= plan.LONGEST_SINGLE_READ
        make = plan.single_read if short else plan.cluster
        aligned = M * dtype.itemsize % 16 == 0
        made = make(M, dtype, "SOFTMAX", aligned)
        found = dict(made.constants)
        shape = f"{made.rows:4}  {made.blocks:6}  {found['THREADS']:>7}"
        print(f"  {M:7}  {shape}  {found['ITEMS']:>7}")
print(f"single_read up to {plan.LONGEST_SINGLE_READ}")
print(f"cluster up to {plan.LONGEST_CLUSTER}")
