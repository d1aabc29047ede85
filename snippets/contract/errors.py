"""What is refused, and with which error: here, and by torch."""

import torch

import camp_softmax

x = torch.zeros(2, 3)
for call, name, arguments in (
    ("softmax of a list", "softmax", ([1.0, 2.0], 0)),
    ("softmax of integers", "softmax", (x.int(), 0)),
    ("softmax of complex numbers", "softmax", (x.cfloat(), 0)),
    ("softmax of a sparse tensor", "softmax", (x.to_sparse(), 0)),
    ("dim=2 of a matrix", "softmax", (x, 2)),
    ("dim=0.5", "softmax", (x, 0.5)),
    ("dim=True", "softmax", (x, True)),
    ("logsumexp over dim=(0, 0)", "logsumexp", (x, (0, 0))),
):
    errors = []
    for module in (camp_softmax, torch):
        try:
            getattr(module, name)(*arguments)
        except Exception as error:
            errors.append(type(error).__name__)
    print(f"{call}: {errors[0]}, torch: {errors[1]}")

try:
    camp_softmax.softmax(x.int())
except NotImplementedError as error:
    print(error)
