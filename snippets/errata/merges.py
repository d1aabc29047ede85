"""Three merges of lse that are in print, and the pair (m, s), in float32."""

import torch

from camp_softmax import reference

LOG2E = torch.tensor(1.4426950408889634)


def carry_lse(row: torch.Tensor, unit: torch.Tensor, larger: bool):
    """The weights by a running lse; `m` is what each merge takes out."""
    lse = torch.tensor(-torch.inf)
    for tile in row.split(4):
        y = tile * unit
        m = torch.maximum(lse, y.max()) if larger else y.max()
        lse = m + torch.log2(torch.exp2(lse - m) + torch.exp2(y - m).sum())
    return torch.exp2(row * LOG2E - lse)


ONE = torch.tensor(1.0)
MERGES = {
    "maximum of the tile": lambda x: carry_lse(x, LOG2E, larger=False),
    "larger, x as it is": lambda x: carry_lse(x, ONE, larger=True),
    "larger, x * log2e": lambda x: carry_lse(x, LOG2E, larger=True),
    "(m, s)": lambda x: reference.online(x, tile=4),
    "torch": lambda x: torch.softmax(x, 0),
}
ROWS = {
    "ordinary": [3.0, 1, 4, 1, 5, 9, 2, 6],
    "falling": [1000.0] * 4 + [-1000.0] * 4,
    "masked": [-torch.inf] * 4 + [1.0, 5, 9, 2],
    "-3e38": [-3e38] * 8,
}
print("largest weight     ", *(f"{name:>9}" for name in ROWS))
for name, softmax in MERGES.items():
    largest = [softmax(torch.tensor(row)).max() for row in ROWS.values()]
    print(f"{name:19}", *(f"{weight:9.3f}" for weight in largest))
