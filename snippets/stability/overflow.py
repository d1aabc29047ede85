"""Where float32 ends, and what softmax without the maximum does beyond it."""

import torch

from camp_softmax import reference

print(f"largest float32: {torch.finfo(torch.float32).max:.1e}")
for x in (88.72, 88.73, 100.0, 1000.0):
    print(f"exp({x:g}) = {torch.tensor(x).exp():.2e}")

inf = torch.tensor(torch.inf)
print(f"inf / inf = {inf / inf}")
for row in [-1000.0, 0, 1000, 1], [100.0, 200, 300], [0.0, 1, 2]:
    weights = reference.naive(torch.tensor(row)).tolist()
    print(row, "->", [round(weight, 3) for weight in weights])
