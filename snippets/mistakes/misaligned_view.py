"""A view that starts in the middle of a vector load."""

import torch

import camp_softmax
from camp_softmax.tilelang import online

device = "cuda" if torch.cuda.is_available() else "cpu"
flat = torch.zeros(1 + 64 * 1024, device=device)
x = flat[1:].view(64, 1024)
print("contiguous" if x.is_contiguous() else "strided", end=", ")
print("starts", x.data_ptr() % 16, "bytes after a multiple of 16")
try:
    online.softmax(x)
except ValueError as error:
    print("the kernel:", str(error).split(", got")[0])
y = camp_softmax.softmax(x)
print(f"camp_softmax.softmax: 1024 weights of {y[0, 0].item():.6f}")
