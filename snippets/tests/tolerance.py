"""One mistake, and two ways to measure it."""

from pathlib import Path
from runpy import run_path

import torch

from camp_softmax import reference

SIX = run_path(str(Path(__file__).with_name("six.py")))
torch.manual_seed(0)
x = torch.randn(17, 513)
want = reference.softmax(x)  # float64
distance = (x - x.amax(1, keepdim=True)).abs().max().item()
rtol = reference.rtol(torch.float32, 513, distance)

print(f"allowed: {2e-3:.0e} + {2e-3:.0e} of a weight")
print(f"allowed: {rtol:.0e} of a weight")
for mistake in "", "floor_tiles":
    y = torch.full_like(x, torch.nan).to(SIX["DEVICE"])
    SIX["kernel"](mistake)(x.to(y.device), y)
    error = (y.cpu().double() - want).abs()
    print(mistake or "as it ships")
    for name, worst in (
        ("absolute", error.max().item()),
        ("relative", (error / want).max().item()),
    ):
        shown = f"{worst:.0e}" if worst > 1e-5 else "below 1e-05"
        print(f"  largest {name} error: {shown}")
