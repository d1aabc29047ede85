"""The maximum of a negative row, started from 0 and from the row itself."""

import torch

for row in torch.tensor([[-20.0, -30.0], [-200.0, -300.0]]):
    print("row", row.tolist())
    for start in torch.tensor(0.0), row[0]:
        m = torch.maximum(start, row.max())
        e = torch.exp(row - m)
        weights = " ".join(f"{weight:.3f}" for weight in e / e.sum())
        print(f"  from {start:.0f}: m = {m:.0f}, s = {e.sum():.0e}, {weights}")
