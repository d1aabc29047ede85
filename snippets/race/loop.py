"""Runs all_rows of partials.cuh in 20 orders: one block, eight rows."""

from pathlib import Path

import torch

from camp_softmax import reference
from camp_softmax.cuda.host import Finding, Memory, kernel

all_rows = kernel(Path(__file__).with_name("partials.cuh"), "all_rows")
torch.manual_seed(0)
x = torch.randn(8, 1000)
want, allowed = reference.expected("softmax", x)
found = right = 0
for seed in range(20):
    y = torch.full_like(x, torch.nan)
    try:
        all_rows(1, 256, Memory.of(y), Memory.of(x), *x.shape, seed=seed)
        right += int(((y - want).abs() <= allowed).all())
    except Finding:
        found += 1
print(f"all_rows: found in {found}, right in {right}")
