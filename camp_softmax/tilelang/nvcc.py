"""What TileLang compiles with for CUDA devices; cpu.py has the same for the CPU."""

import shutil

from tilelang.contrib.nvcc import get_nvcc_compiler


def require_compiler() -> None:
    """Raises a RuntimeError where there is no nvcc."""
    try:
        nvcc = get_nvcc_compiler()
    except RuntimeError:  # no CUDA at all
        nvcc = ""
    if not shutil.which(nvcc):
        raise RuntimeError("TileLang needs nvcc on a CUDA device: install the CUDA toolkit, or set CUDA_HOME")
