"""Holds the kernel softmax_NAME of a file NAME.cuh to float64."""

import sys
from pathlib import Path

import torch

from camp_softmax import cuda, reference

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
source = Path(sys.argv[1])
torch.manual_seed(0)
falling = torch.tensor([1000.0] * 256 + [-1000.0] * 257).view(1, 513)
masked = torch.randn(1, 513)
masked[:, :300] = -torch.inf
ROWS = {
    "17 x 513, random": torch.randn(17, 513),
    "fewer columns than threads": torch.randn(3, 7),
    "one column": torch.randn(2, 1),
    "negative": torch.tensor([[-200.0, -300.0]]),
    "large first": falling,
    "large last": falling.flip(1),
    "begins with -inf": masked,
    "all equal": torch.zeros(1, 100_003),
}

for case, rows in ROWS.items():
    rows = rows.to(DEVICE)
    out = torch.full_like(rows, torch.nan)  # what nobody writes stays NaN
    cuda.run(source, f"softmax_{source.stem}", rows, out)
    want = reference.softmax(rows)
    below = (rows.amax(1, keepdim=True) - rows).nan_to_num(posinf=0)
    bound = want * reference.rtol(rows.dtype, rows.shape[1], below)
    bound += reference.smallest_subnormal(rows.dtype)
    right = ((out - want).abs() <= bound).all()
    print(f"{case:27}", "right" if right else "WRONG")
