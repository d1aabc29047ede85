"""How much of an H200 a shape can keep busy, and what it has to move."""

import math

import torch

from camp_softmax.reference import bytes_moved

SMS = 132  # multiprocessors
BLOCK_N = 16  # rows a block

print("       shape   blocks   multiprocessors   bytes moved")
for N, M in [(1, 1), (16, 256), (17, 513), (64, 4096), (32768, 4096)]:
    blocks = math.ceil(N / BLOCK_N)
    moved = bytes_moved("online", (N, M), torch.float32)
    busy = f"{min(blocks, SMS)} of {SMS}"
    shape = f"{N} x {M}"
    print(f"{shape:>12} {blocks:8} {busy:>17} {moved:13,}")
