"""The right merge from the wrong start, m = -inf."""

import torch
from torch import inf

from camp_softmax.tilelang import build, online

if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.tensor([[-inf, -inf, -inf, -inf, 1, 5, 9, 2]], device=device)
    for name, start in (("lowest finite", online.LOWEST), ("-inf", -inf)):
        online.LOWEST = start
        y = torch.empty_like(x)
        build(online.softmax_kernel(8, "float32", block_m=4), device)(x, y)
        shown = " ".join(f"{weight:.3f}" for weight in y[0].tolist())
        print(f"m starts at {name:13}:", shown)
