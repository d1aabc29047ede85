"""Where row r of a matrix begins, if r * M has only 32 bits."""

import torch

M = 32_768
print("   row     64 bits          int    unsigned")
for row in 65_535, 65_536, 131_071, 131_072:
    right = row * M
    signed = (torch.tensor(row, dtype=torch.int32) * M).item()
    unsigned = right % 2**32
    print(f"{row:6} {right:11} {signed:12} {unsigned:11}")
