"""The bits of a float as an integer, in the order of the floats."""

import torch

x = torch.tensor([-9.0, -2.0, -0.5, 0.0, 0.5, 2.0, 9.0])
bits = x.view(torch.int32)
mended = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # reverses the negative ones

for row in zip(x, bits, mended, strict=True):
    print("{:4} {:12} {:12}".format(*row))
for name, column in ("raw bits", bits), ("mended", mended):
    print(f"{name}: {'rising' if (column.diff() > 0).all() else 'not rising'}")
