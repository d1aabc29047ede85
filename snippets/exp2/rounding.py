"""What rounding m * log2(e) costs where x is large."""

import torch

LOG2E = torch.tensor(1.4426950408889634)
row = torch.tensor([3.0, 1, 4, 1, 5, 9, 2, 6])


def error(y: torch.Tensor, want: torch.Tensor) -> str:
    worst = ((torch.exp2(y) - want).abs() / want).max().item()
    return "below 1e-6" if worst < 1e-6 else f"{worst:.0e}"


print("row shifted by    spacing    (x-m)*c    x*c - m*c        fused")
for shift in (0.0, 100.0, 10_000.0):
    x = row + shift
    m = x.max()
    mc = m * LOG2E  # rounded to a float32
    spacing = torch.nextafter(mc, 2 * mc) - mc  # to the next one
    want = torch.exp(x.double() - m.double())
    # A fused multiply-add rounds at its end only: here, in float64.
    fused = (x.double() * LOG2E.double() - mc.double()).float()
    ways = (x - m) * LOG2E, x * LOG2E - mc, fused
    shown = "   ".join(f"{error(y, want):>10}" for y in ways)
    print(f"{shift:14,.0f} {f'1/{1 / spacing:.0f}':>10} {shown}")

x, m = row[0] + 10_000, row.max() + 10_000
c, mc = x * LOG2E, m * LOG2E
print(f"x = {x:.0f}, m = {m:.0f}: x - m = {x - m:.0f}")
print(f"  (x-m)*c = {(x - m) * LOG2E:.5f}")
print(f"  {c:.4f} - {mc:.4f} = {c - mc:.5f}")
