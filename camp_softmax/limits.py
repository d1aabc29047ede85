"""What the kernels of both languages take."""

import torch

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
LARGEST = (
    2**31 - 1
)  # rows, and in TileLang columns: a size that is read at launch is a 32-bit int in a kernel
ALIGNMENT = 16  # bytes; vector loads assume it, and one misaligned address kills the CUDA context
