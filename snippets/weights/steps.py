"""Scores to weights: take exponentials, then each one's share of their sum."""

import torch

scores = torch.tensor([0.0, 1, 2])
exps = torch.exp(scores)  # step 1: each from its own score
weights = exps / exps.sum()  # step 2: the sum needs all of them

rows = ("scores", scores), ("exps", exps), ("weights", weights)
for name, row in rows:
    shown = " ".join(f"{value:.3f}" for value in row.tolist())
    print(f"{name:8} {shown}   sum {row.sum():.3f}")
