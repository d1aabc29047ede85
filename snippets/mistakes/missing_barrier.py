"""A barrier is missing: right as long as no warp is late."""

from pathlib import Path

import torch

from camp_softmax import cuda

row = torch.tensor([3.0, 1, 4, 1, 5, 9, 2, 6], device="cuda")
rows = row.repeat(1, 32)  # 256 columns, one for each thread
source = Path(__file__).with_name("missing_barrier.cuh")


def show(name: str, weights: torch.Tensor) -> None:
    nines = f"columns 5 and 253: {weights[0, 5]:.4f} {weights[0, 253]:.4f}"
    print(f"{name:7}  {nines}, sum {weights.sum():.3f}")


show("torch", torch.softmax(rows, 1))
for name in "on_time", "late":
    out = torch.empty_like(rows)
    cuda.run(source, name, rows, out)
    show(name, out)
