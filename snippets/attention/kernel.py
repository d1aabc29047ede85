"""The real kernel: the example, then lengths that fit no tile."""

import torch

from camp_softmax.tilelang.attention import attention

device = "cuda" if torch.cuda.is_available() else "cpu"


def heads(*shape: int) -> torch.Tensor:
    return torch.zeros(1, 1, *shape, dtype=torch.float16, device=device)


q, k, v = heads(1, 64), heads(8, 64), heads(8, 64)
q[..., 0] = 8  # the scale is 1 / sqrt(64)
k[0, 0, :, 0] = torch.tensor([3.0, 1, 4, 1, 5, 9, 2, 6])
v[0, 0, :, 0] = torch.arange(1, 9)
v[0, 0, :, 1] = 1
a, b = attention(q, k, v)[0, 0, 0, :2].tolist()
print(f"example: {a:.2f} {b:.2f}")

random = torch.Generator().manual_seed(0)
q, k, v = (
    torch.randn(1, 2, n, 64, generator=random).half() for n in (150, 300, 300)
)
y = attention(q.to(device), k.to(device), v.to(device))
q, k, v = q.double(), k.double(), v.double()
want = torch.softmax(q @ k.mT / 8, -1) @ v
error = (y.cpu() - want).abs().max().item()
print("150 queries, 300 keys, 2 heads")
print("largest error:", "below 1e-3" if error < 1e-3 else error)
