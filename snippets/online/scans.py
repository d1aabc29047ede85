"""Three scans over a row, and two that give the same weights."""

import torch

from camp_softmax import reference

row = torch.tensor([3.0, 1, 4, 1, 5, 9, 2, 6])

m = row.max()  # scan 1: needs every element
s = torch.exp(row - m).sum()  # scan 2: needs m, so it waits for scan 1
three = torch.exp(row - m) / s  # scan 3: needs s
two = reference.online(row, tile=3)  # scans 1 and 2 in one, then the last


def show(values: torch.Tensor) -> str:
    return " ".join(f"{value:.4f}" for value in values.tolist())


print(f"three scans: m = {m:.0f}, s = {s:.3f}")
print("  weights", show(three))
print("two scans")
print("  weights", show(two))
