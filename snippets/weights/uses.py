"""The same two steps inside a classifier's loss and inside attention."""

import torch
from torch.nn import functional as F

logits = torch.tensor([[2.0, 0, 1]])  # scores of three classes
chosen = torch.softmax(logits, 1)[0, 0]  # the weight of class 0
loss = F.cross_entropy(logits, torch.tensor([0]))
print(f"cross entropy {loss:.3f}, -log of the weight {-chosen.log():.3f}")

q = torch.tensor([[1.0, 0, 1, 0]])  # one query, three keys and values
k = torch.tensor([[1.0, 0, 1, 0], [0.0, 1, 0, 1], [1.0, 1, 0, 0]])
v = torch.tensor([[1.0, 0], [0.0, 1], [1.0, 1]])
weights = torch.softmax(q @ k.T / 4**0.5, 1)  # 4: the length of a key
attention = F.scaled_dot_product_attention(q[None], k[None], v[None])[0]
for name, row in ("attention", attention), ("weights @ v", weights @ v):
    print(f"{name:12}", " ".join(f"{value:.3f}" for value in row[0].tolist()))
