"""The same kernels on rows that are chosen, with a tighter comparison."""

from pathlib import Path
from runpy import run_path

import torch
from torch import inf

from camp_softmax import reference

SIX = run_path(str(Path(__file__).with_name("six.py")))
# --8<-- [start:checks]
M = 513  # tiles 0-255 and 256-511, and a tail of one column


def tiles(*values: float) -> torch.Tensor:
    """17 equal rows whose tiles hold one value each."""
    row = torch.tensor(values).float().repeat_interleave(256)[:M]
    return row.repeat(17, 1)


CHECKS = {
    "negative row": torch.full((17, M), -200.0),
    "row of -20": torch.full((17, M), -20.0),
    "falling tiles": tiles(1000, -1000, -1000),
    "rising tiles": tiles(-80, 0, 80),
    "first tile -inf": tiles(-inf, 1, 2),
    "spike everywhere": 100 * torch.eye(M),
}


def passes(kernel, x: torch.Tensor) -> bool:
    """Within the float64 reference's tolerance, relative to each weight."""
    y = torch.full_like(x, torch.nan).to(SIX["DEVICE"])  # poison
    kernel(x.to(y.device), y)
    want = reference.softmax(x)
    distance = (x - x.amax(1, keepdim=True)).abs().double()
    allowed = reference.rtol(x.dtype, M, distance) * want
    allowed = allowed.nan_to_num() + reference.smallest_subnormal(x.dtype)
    return bool(((y.cpu().double() - want).abs() <= allowed).all())


if __name__ == "__main__":
    for letter, name in zip("ghijkl", CHECKS, strict=True):
        print(letter, name)
    print(f"{'':20}g h i j k l")
    for mistake in "", *SIX["WRONG"]:
        wrong = SIX["kernel"](mistake)
        marks = ["." if passes(wrong, x) else "x" for x in CHECKS.values()]
        print(f"{mistake or 'as it ships':20}" + " ".join(marks))
    # --8<-- [end:checks]
