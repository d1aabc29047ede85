"""What carrying L = m log2(e) + log2(s) costs, against the pair (m, s)."""

import torch

from camp_softmax import reference

LOG2E = torch.tensor(1.4426950408889634)
row = torch.tensor([3.0, 1, 4, 1, 5, 9, 2, 6])

print("row shifted by   error of the (m, s) form   error of the L form")
for shift in (0.0, 100.0, 10_000.0):
    x = row + shift
    m = x.max()
    s = torch.exp2((x - m) * LOG2E).sum()
    pair = torch.exp2((x - m) * LOG2E) / s
    L = m * LOG2E + torch.log2(s)  # m log2(e) is rounded here
    single = torch.exp2(x * LOG2E - L)  # and x log2(e) here
    want = reference.softmax(x)
    a, b = (((y - want).abs() / want).max().item() for y in (pair, single))
    small = "below 1e-6" if a < 1e-6 else a
    print(f"{shift:>14,.0f}   {small:>24}   {b:>19.0e}")
