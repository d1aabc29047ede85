"""What passes for a softmax, by the inputs and tolerances of four tests."""

import torch

FAKES = {
    "zero": torch.zeros_like,
    "half": lambda x: torch.softmax(x, 1) / 2,
    "95%": lambda x: torch.softmax(x, 1) * 0.95,
    "no-max": lambda x: x.exp() / x.exp().sum(1, keepdim=True),
}

torch.manual_seed(0)
TESTS = {  # inputs, atol, rtol
    "task, e": (torch.randn(64, 4096), 2e-3, 2e-3),
    "task, longer": (torch.randn(64, 65536), 2e-3, 2e-3),
    "puzzle 6": (torch.randn(64, 16384), 1e-8, 1e-1),
    "KernelBench": (torch.rand(4, 393216), 1e-4, 1e-4),
}
print("              largest")
print("               weight", *FAKES)
for name, (x, atol, rtol) in TESTS.items():
    want = torch.softmax(x, 1)
    marks = []
    for fake in FAKES.values():
        right = torch.allclose(fake(x), want, atol=atol, rtol=rtol)
        marks.append("." if right else "x")
    line = f"{name:13} {want.max().item():7.0e}"
    print(line + " {:^4} {:^4} {:^3} {:^6}".format(*marks).rstrip())
