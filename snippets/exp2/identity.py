"""e^x as a power of 2, and the way back."""

import math

import torch

LOG2E = math.log2(math.e)
print(f"log2(e) = {LOG2E:.8f}")
for x in (1.0, -6.0, 2.5):
    y = x * LOG2E
    print(f"e^{x:g} = {math.exp(x):.6f}, 2^{y:.6f} = {2**y:.6f}")

row = torch.tensor([3.0, 1, 4, 1, 5, 9, 2, 6])
m = row.max()
s = torch.exp2((row - m) * LOG2E).sum()
print(f"log2(s) = {s.log2():.4f}, divided by log2(e): {s.log2() / LOG2E:.4f}")
print(f"ln(s)   = {s.log():.4f}")
