"""Launches the three-pass kernel and holds it to float64."""

import torch

from camp_softmax import cuda, reference

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
rows = torch.randn(17, 513, device=device)
rows[16, :8] = torch.tensor([3.0, 1, 4, 1, 5, 9, 2, 6])
rows[16, 8:] = -torch.inf
out = torch.full_like(rows, torch.nan)  # what nobody writes stays NaN

source = cuda.HERE / "three_pass.cuh"
cuda.run(source, "softmax_three_pass", rows, out)

print("row 16:", " ".join(f"{weight:.4f}" for weight in out[16, :8].tolist()))
want = reference.softmax(rows)  # float64
error = ((out - want).abs() / want)[:16].max().item()
print("largest relative error:", "below 1e-6" if error < 1e-6 else error)
