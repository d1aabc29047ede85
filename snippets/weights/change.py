"""One input changes: who else notices?"""

import torch


def show(row: torch.Tensor) -> str:
    return " ".join(f"{value:.3f}" for value in row.tolist())


other = torch.tensor([10.0, 20, 30])
for scores in [0.0, 1, 2], [1.0, 1, 2]:
    x = torch.tensor(scores)
    print("scores      ", show(x))
    print("  vector add", show(x + other))
    print("  softmax   ", show(torch.softmax(x, 0)))
