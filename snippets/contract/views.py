"""How often a call copies a tensor of 4 x 6 x 8."""

from unittest import mock

import torch

import camp_softmax

x = torch.randn(4, 6, 8)
flat = torch.randn(4 * 6 * 8 + 1)


def copies(x, dim):
    made, contiguous = [], torch.Tensor.contiguous

    def watched(tensor):
        y = contiguous(tensor)
        made.append(y.data_ptr() != tensor.data_ptr())
        return y

    with mock.patch.object(torch.Tensor, "contiguous", watched):
        camp_softmax.softmax(x, dim, backend="cuda")
    return sum(made)


print("dim=-1:", copies(x, -1))
print("dim=-1 of x[1:]:", copies(x[1:], -1))
print("dim=-1 of flat[1:], not aligned:", copies(flat[1:].view(4, 6, 8), -1))
print("dim=-1 of x[:, ::2]:", copies(x[:, ::2], -1))
print("dim=-1 of x[..., :4]:", copies(x[..., :4], -1))
print("dim=-1 of x[..., :5]:", copies(x[..., :5], -1))
print("dim=-1 of x[..., ::2]:", copies(x[..., ::2], -1))
print("dim=-1 of a row expanded:", copies(x[:1, :1].expand(4, 6, 8), -1))
print("dim=1 of x.transpose(1, 2):", copies(x.transpose(1, 2), 1))
print("dim=1:", copies(x, 1))
