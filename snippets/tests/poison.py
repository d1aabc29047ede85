"""What the output holds before the run decides what a test can see."""

from pathlib import Path
from runpy import run_path

import torch

SIX = run_path(str(Path(__file__).with_name("six.py")))
kernel = SIX["kernel"]("floor_blocks")  # leaves row 16 alone
torch.manual_seed(0)
x = torch.randn(17, 513).to(SIX["DEVICE"])
want = torch.softmax(x, 1)
for name, y in (
    ("NaN", torch.full_like(x, torch.nan)),
    ("zeros", torch.zeros_like(x)),
    ("the right result", want.clone()),
):
    kernel(x, y)
    close = torch.isclose(y, want, atol=2e-3, rtol=2e-3)
    wrong = (~close).any(1).nonzero().flatten().tolist()
    print(f"{name}: wrong rows {wrong}")
