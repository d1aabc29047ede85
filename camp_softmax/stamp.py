"""Where and with what something ran: the stamp of the ledger and of every benchmark record."""

import contextlib
import ctypes
import importlib.metadata
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]


def stamp(device: str = "cuda") -> dict[str, str | None]:
    """The machine, the software and the day.

    Args:
        device: "cuda", or "cpu" for a run that no GPU took part in.

    Example:
        >>> stamp("cpu")["device"]
        'CPU'
    """
    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else "CPU",
        "driver": driver() if device == "cuda" else None,
        "cuda": torch.version.cuda,
        "torch": torch.__version__,
        "tilelang": importlib.metadata.version("tilelang"),
        "python": platform.python_version(),
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
    }


def driver() -> str:
    """The version of the NVIDIA driver, from the library that comes with every driver."""
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    version = ctypes.create_string_buffer(96)
    if nvml.nvmlInit_v2() or nvml.nvmlSystemGetDriverVersion(version, len(version)):
        raise OSError("NVML does not tell the driver's version")
    return version.value.decode()


def commit() -> str | None:
    """The commit: named by $COMMIT where there is no .git, else git's; None if neither knows."""
    if named := os.environ.get("COMMIT"):
        return named
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()
    return None
