"""Rows and dtypes at the edge: what comes out here, and out of torch."""

from math import inf, nan

import torch

import camp_softmax

device = "cuda" if torch.cuda.is_available() else "cpu"

for row in ([1, nan], [1, inf], [-inf, -inf], [-inf, 0]):
    x = torch.tensor(row, dtype=torch.float32, device=device)
    print(row)
    for name in ("softmax", "log_softmax", "logsumexp"):
        ours, theirs = (getattr(m, name)(x, -1) for m in (camp_softmax, torch))
        print(f"  {name}: {ours.tolist()}, torch: {theirs.tolist()}")

for dtype in (torch.float16, torch.bfloat16, torch.float64):
    x = torch.zeros(2, 0, dtype=dtype, device=device)
    ours, theirs = (m.logsumexp(x, -1) for m in (camp_softmax, torch))
    print(f"0 columns, {ours.dtype}: {ours.tolist()}, torch: {theirs.tolist()}")

counts = torch.tensor([1, 2], device=device)
print("logsumexp of integers:", camp_softmax.logsumexp(counts).dtype)
