"""A store without a guard: the tail of the last row lands behind the matrix."""

from pathlib import Path

import torch

from camp_softmax import cuda

device = "cuda" if torch.cuda.is_available() else "cpu"
M = 5
x = torch.zeros(1, M, device=device)
memory = torch.full((256,), 7.0, device=device)  # 5 for the result, no more
source = Path(__file__).with_name("unguarded_write.cuh")
cuda.run(source, "unguarded_write", x, memory)
print("result:  ", memory[:M].tolist())
print("not ours:", memory[M : M + 5].tolist(), "…")
