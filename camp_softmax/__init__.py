"""Softmax kernels that a course can teach: TileLang and CUDA C++, one rung after the other."""

from camp_softmax.api import backends, log_softmax, logsumexp, softmax

__all__ = ["backends", "log_softmax", "logsumexp", "softmax"]
__version__ = "0.1.0"
