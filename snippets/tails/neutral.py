"""Which padding changes neither the maximum nor the sum of a row."""

import torch

row = torch.tensor([-20.0, -20.0])
for padding in (0.0, -20.0, -1e30, -torch.inf):
    padded = torch.tensor([-20.0, -20.0, padding])
    m = padded.max()
    s = torch.exp(padded - m).sum()
    print(f"padding {padding:g}: m = {m:g}, s = {s:g}")
s = torch.exp(row - row.max()).sum()
print(f"no padding: m = {row.max():g}, s = {s:g}")
masked = torch.tensor([-torch.inf, -1e30])
print(f"padding -1e30 in a row of -inf: m = {masked.max():g}")
