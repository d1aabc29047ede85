"""The loop with one factor left out: s is rescaled, acc is not."""

import torch

from camp_softmax.reference import LOWEST

v = torch.stack([torch.arange(1.0, 9), torch.ones(8)], 1)


def attend(scores: torch.Tensor, tile: int) -> torch.Tensor:
    m, s, acc = torch.tensor(LOWEST), torch.tensor(0.0), torch.zeros(2)
    for x, values in zip(scores.split(tile), v.split(tile), strict=True):
        m_new = torch.maximum(m, x.max())
        e = torch.exp(x - m_new)
        s = s * torch.exp(m - m_new) + e.sum()
        acc = acc + e @ values  # the old acc belongs to the old m
        m = m_new
    return acc / s


row = torch.tensor([3.0, 1, 4, 1, 5, 9, 2, 6])
print("              tiles of 3      one tile        right")
for name, scores in (
    ("3 1 4 1 5 …", row),
    ("ascending", row.sort().values),
    ("descending", row.sort(descending=True).values),
):
    rows = attend(scores, 3), attend(scores, 8), torch.softmax(scores, 0) @ v
    shown = ("   ".join(f"{value:.3f}" for value in y.tolist()) for y in rows)
    print(f"{name:11}", *(f"{text:>15}" for text in shown))
