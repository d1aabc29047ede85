"""Runs the kernel whose barrier is missing on the CPU, under the checker."""

import textwrap
from pathlib import Path

import torch

from camp_softmax.cuda import host

source = Path("snippets/mistakes/missing_barrier.cuh")
rows = torch.tensor([3.0, 1, 4, 1, 5, 9, 2, 6]).repeat(1, 32)
for seed in range(3):  # each an order in which the threads run
    try:
        host.run(source, "on_time", rows, torch.empty_like(rows), seed=seed)
    except host.Finding as finding:
        print(f"order {seed}:", *textwrap.wrap(str(finding), 72), sep="\n  ")
