"""In which banks of shared memory the rows of a warp begin."""

import torch

from camp_softmax.cuda import plan

BANKS, WORD = 32, 4  # a word of each bank at a time

for M in 63, 127:
    made = plan.single_read(M, torch.bfloat16, "SOFTMAX", False, dense=True)
    found = dict(made.constants)
    lanes, chosen = int(found["GROUP"]), int(found["STEP"])
    print(f"{M} elements in bfloat16, {lanes} lanes a row")
    for step in 1, chosen:
        rows = [k * step % made.rows for k in range(32 // lanes)]
        banks = [row * M * 2 // WORD % BANKS for row in rows]
        print(f"  {step} row{'s'[: step > 1]} apart:", *banks)
