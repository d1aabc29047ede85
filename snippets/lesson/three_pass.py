"""Three passes over a row: what each finds, and what it leaves in y."""

import torch

x = torch.tensor([3.0, 1, 4, 1, 5, 9, 2, 6])
y = torch.empty_like(x)


def show(values: torch.Tensor) -> str:
    return " ".join(f"{value:.4f}" for value in values.tolist())


m = x.max()  # pass 1: read x
print(f"pass 1 reads x            m = {m:.0f}")
y[:] = torch.exp(x - m)  # pass 2: read x, write y
s = y.sum()
print(f"pass 2 reads x, writes y  s = {s:.3f}")
print("  y", show(y))
y /= s  # pass 3: read y, write y
print(f"pass 3 reads y, writes y  sum {y.sum():.3f}")
print("  y", show(y))
