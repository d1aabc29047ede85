"""Weights without exponentials: divide by the sum, or keep the largest."""

import torch


def show(row: torch.Tensor) -> str:
    return " ".join(f"{value:6.3f}" for value in row.tolist())


for row in [1.0, 2, 3], [-1.0, 2, 3], [-1.0, 0, 1]:
    x = torch.tensor(row)
    print("scores       ", show(x))
    print("  x / sum    ", show(x / x.sum()))
    print("  largest    ", show((x == x.max()).float()))
    print("  softmax    ", show(torch.softmax(x, 0)))
