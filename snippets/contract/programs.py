"""Derivatives, vmap and torch.compile beside torch's; the same call again."""

import torch

import camp_softmax

device = "cuda" if torch.cuda.is_available() else "cpu"
row = torch.tensor([3.0, 1, 4], device=device)
both = (camp_softmax, torch)


def rounded(x):
    return [round(value, 4) + 0.0 for value in x.flatten().tolist()]


for module in both:
    x = row.clone().requires_grad_()
    y = module.softmax(x, -1)
    for order in (1, 2, 3):
        (y,) = torch.autograd.grad(y[0], x, create_graph=True)
        print(f"derivative {order}, {module.__name__}: {rounded(y)}")

for module in both:
    columns = torch.vmap(lambda v, m=module: m.softmax(v, -1), in_dims=1)
    y = columns(torch.outer(row, row))
    print(f"vmap, {module.__name__}:", rounded(y[0]))


@torch.compile(fullgraph=True, backend="eager")
def loss(x):
    return camp_softmax.log_softmax(2 * x)[2]


print("compiled:", rounded(loss(row)), "eager:", rounded(loss.__wrapped__(row)))

x = torch.randn(100, 1000, device=device)
y = camp_softmax.softmax(x)
same = sum(camp_softmax.softmax(x).equal(y) for _ in range(9))
print(f"{same} of 9 repetitions have the same bits")
