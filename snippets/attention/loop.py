"""One query and eight keys: the state (m, s, acc) over tiles of three."""

import torch

from camp_softmax.reference import LOWEST

scores = torch.tensor([3.0, 1, 4, 1, 5, 9, 2, 6])  # of the query with each key
v = torch.stack([torch.arange(1.0, 9), torch.ones(8)], 1)  # the place, and a 1

m, s, acc = torch.tensor(LOWEST), torch.tensor(0.0), torch.zeros(2)
for x, values in zip(scores.split(3), v.split(3), strict=True):
    m_new = torch.maximum(m, x.max())
    rescale = torch.exp(m - m_new)
    e = torch.exp(x - m_new)  # weights that are not divided yet
    s = s * rescale + e.sum()
    acc = acc * rescale + e @ values
    m = m_new
    print(f"scores {x.tolist()}: s and acc times {rescale:.4f}")
    print(f"  m = {m:.0f}, s = {s:.3f}, acc = {acc[0]:.3f} {acc[1]:.3f}")

a, b = acc / s
print(f"acc / s:               {a:.3f} {b:.3f}")
a, b = torch.softmax(scores, 0) @ v
print(f"softmax(scores) @ v:   {a:.3f} {b:.3f}")
