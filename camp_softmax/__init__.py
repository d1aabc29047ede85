"""Softmax kernels that a course can teach: TileLang and CUDA C++, one rung after the other."""

from camp_softmax.api import backends, logsumexp, softmax

__all__ = ["backends", "logsumexp", "softmax"]
__version__ = "0.1.0"
