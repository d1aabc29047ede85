"""`python -m camp_softmax`: what is installed, which backends work here and why the others do not."""

import platform
from importlib import metadata

import torch

import camp_softmax

print(f"camp_softmax {camp_softmax.__version__} on Python {platform.python_version()}")
for package in ("torch", "tilelang", "cuda-core"):
    try:
        print(f"  {package} {metadata.version(package)}")
    except metadata.PackageNotFoundError:
        print(f"  {package} not installed")

device = "cuda" if torch.cuda.is_available() else "cpu"
print(f"device: {torch.cuda.get_device_name() if device == 'cuda' else 'CPU only'}")

x = torch.tensor([[0.0, 1.0, 2.0]], device=device)
for backend, reason in camp_softmax.backends().items():
    if reason is None:
        row = camp_softmax.softmax(x, backend=backend)[0].tolist()
        print(f"{backend:>8}: {[round(weight, 3) for weight in row]}")
    else:
        print(f"{backend:>8}: not here. {reason}")
