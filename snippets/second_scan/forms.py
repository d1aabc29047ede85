"""The second scan from the pair (m, s), and from the one number L."""

import torch

LOG2E = torch.tensor(1.4426950408889634)
row = torch.tensor([3.0, 1, 4, 1, 5, 9, 2, 6])

m = row.max()
s = torch.exp2((row - m) * LOG2E).sum()
L = m * LOG2E + torch.log2(s)
print(f"m = {m:.0f}, s = {s:.3f}, L = {L:.3f}")
for name, weights in (
    ("exp2((x - m) * log2e) / s", torch.exp2((row - m) * LOG2E) / s),
    ("exp2(x * log2e - L)", torch.exp2(row * LOG2E - L)),
):
    print(f"{name:25}", " ".join(f"{w:.3f}" for w in weights.tolist()))
