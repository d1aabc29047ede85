"""The same rows with the maximum subtracted first."""

import torch

for row in [-1000.0, 0, 1000, 1], [100.0, 200, 300], [0.0, 1, 2]:
    x = torch.tensor(row)
    d = x - x.max()  # nothing is above 0
    e = d.exp()  # nothing is above 1
    print(f"x - m = {d.tolist()}, exp: {[round(v, 3) for v in e.tolist()]}")
    print("  weights:", [round(w, 3) for w in (e / e.sum()).tolist()])
