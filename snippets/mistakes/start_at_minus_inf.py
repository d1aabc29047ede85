"""The right merge from the wrong start: m = -inf instead of the lowest finite number."""

import torch

from camp_softmax.tilelang import build, online

if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.tensor([[-torch.inf, -torch.inf, -torch.inf, 1, 5, 9]], device=device)
    for name, start in (("lowest finite", online.LOWEST), ("-inf", -torch.inf)):
        online.LOWEST = start
        y = torch.empty_like(x)
        build(online.softmax_kernel(6, "float32", block_m=3), device)(x, y)
        print(f"m starts at {name:13}:", " ".join(f"{weight:.3f}" for weight in y[0].tolist()))
