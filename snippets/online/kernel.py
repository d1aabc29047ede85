"""The kernel at work: the example row, then a shape that fits no tile."""

import torch

from camp_softmax import reference
from camp_softmax.tilelang import online

device = "cuda" if torch.cuda.is_available() else "cpu"

row = torch.tensor([[3.0, 1, 4, 1, 5, 9, 2, 6]], device=device)
weights = online.softmax(row, block_m=4)[0]
print("example row:", " ".join(f"{weight:.4f}" for weight in weights.tolist()))

x = torch.randn(17, 513, generator=torch.Generator().manual_seed(0))
x[0, :256], x[0, 256:] = 1000, -1000  # descending tiles
y = online.softmax(x.to(device)).cpu()
error = (y - reference.softmax(x)).abs().max().item()
print(f"17 x 513: row sums from {y.sum(1).min():.5f} to {y.sum(1).max():.5f}")
print("largest error:", "below 1e-7" if error < 1e-7 else error)
print(f"descending tiles: {y[0, 0]:.8f}, and 1/256 = {1 / 256:.8f}")
