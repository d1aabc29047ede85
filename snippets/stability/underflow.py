"""How small an exponential may get, and what is lost when it becomes 0."""

import torch

for d in (-87.0, -103.0, -104.0, -1000.0):
    print(f"exp({d:g}) = {torch.tensor(d).exp():.1e}")

x = torch.tensor([0.0, -104.0])
wide = torch.softmax(x.double(), 0)
print(f"float32: {torch.softmax(x, 0).tolist()}")
print(f"float64: {wide[0]:.0f} and {wide[1]:.1e}")
