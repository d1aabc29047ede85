"""Equal steps of the score are equal factors of the exponential."""

import torch

scores = torch.arange(-2.0, 5.0)
exps = torch.exp(scores)

print("score    exp    gap  factor")
print(f"{scores[0]:5.0f} {exps[0]:6.3f}")
for i in range(1, len(scores)):
    gap, factor = exps[i] - exps[i - 1], exps[i] / exps[i - 1]
    print(f"{scores[i]:5.0f} {exps[i]:6.3f} {gap:6.3f} {factor:7.3f}")
