"""Exponentials below 2^-126, flushed to 0, and saved by a factor of 2^24."""

import torch

LOG2E = 1.4426950408889634
SMALLEST_NORMAL = torch.finfo(torch.float32).tiny  # 2^-126


def exp2_flushed(x: torch.Tensor) -> torch.Tensor:
    """As ex2.approx.ftz.f32: a result below 2^-126 becomes 0."""
    y = torch.exp2(x.double()).float()
    return torch.where(y < SMALLEST_NORMAL, 0.0, y)


x = torch.tensor([0.0, -80.0, -87.0, -88.0, -95.0, -103.0])  # m is 0
exact = torch.exp(x.double())
plain = exp2_flushed(x * LOG2E)
raised = exp2_flushed(x * LOG2E + 24)
lowered = (raised.double() / 2**24).float()

print("   x   exact    flushed  2^24 times   back")
for row in zip(x, exact, plain, raised, lowered, strict=True):
    print("{:4.0f}  {:.1e}  {:.1e}  {:.1e}   {:.1e}".format(*row))
