"""Compiles the .cuh files with NVRTC, keeps the result on disk, and launches on torch's stream.

Compiling needs neither a GPU nor a driver, only an explicit architecture such as "sm_90".
"""

import functools
import hashlib
import re
import warnings
from pathlib import Path

import torch
from cuda.core import Device, Kernel, LaunchConfig, ObjectCode, Program, ProgramOptions, Stream, launch
from cuda.core.utils import FileStreamProgramCache, make_program_cache_key

HERE = Path(__file__).parent
BLOCK = 256  # threads a block: a power of two, for the reduction tree


def compile(path: Path, arch: str) -> ObjectCode:
    """A .cuh file as machine code.

    Args:
        path: the file; what it includes is looked for in this folder.
        arch: the architecture, such as "sm_80", "sm_90" or "sm_100".

    Raises:
        RuntimeError: NVRTC refused the source; the message has its errors, each with its source line.

    Example:
        >>> compile(HERE / "online.cuh", "sm_90").code_type
        'cubin'
    """
    source = path.read_text(encoding="utf-8")
    options = ProgramOptions(
        arch=arch,
        std="c++17",
        name=path.name,
        include_path=str(HERE),
        define_macro=("BLOCK", str(BLOCK)),
    )
    headers = b"".join(header.read_bytes() for header in sorted(HERE.glob("*.cuh")))
    key = make_program_cache_key(
        code=source,
        code_type="c++",
        options=options,
        target_type="cubin",
        extra_digest=hashlib.sha256(headers).digest(),
    )
    try:
        with FileStreamProgramCache() as cache:  # $XDG_CACHE_HOME/cuda-python/program-cache
            cubin = cache.get(key)
            if not (cubin and cubin.startswith(b"\x7fELF")):  # none yet, or a damaged file
                cache[key] = cubin = bytes(_compile(source, options, path).code)
    except OSError as error:
        warnings.warn(f"compiled CUDA kernels are not kept on disk: {error}", RuntimeWarning, stacklevel=2)
        return _compile(source, options, path)
    return ObjectCode.from_cubin(cubin, name=path.name)


def _compile(source: str, options: ProgramOptions, path: Path) -> ObjectCode:
    try:
        return Program(source, "c++", options).compile("cubin")
    except Exception as error:  # cuda-core has no public type for it
        message = _with_lines(error, path)
        raise RuntimeError(f"{path.name} does not compile for {options.arch}:\n{message}") from error


def _with_lines(error: Exception, path: Path) -> str:
    """NVRTC's message with each source line that it points to."""
    lines = []
    for line in str(error).splitlines():
        lines.append(line)
        if match := re.match(r"(?P<file>.+?)\((?P<line>\d+)\): (error|warning)", line):
            file = path if match["file"] == path.name else Path(match["file"])
            if file.exists():
                source = file.read_text(encoding="utf-8").splitlines()[int(match["line"]) - 1]
                lines.append(f"{match['line']:>5} | {source}")
    return "\n".join(lines)


@functools.cache
def kernel(path: Path, name: str, device: int) -> Kernel:
    """The `extern "C"` kernel `name` of a .cuh file, loaded on CUDA device number `device`."""
    major, minor = torch.cuda.get_device_capability(device)
    with torch.cuda.device(device):
        return compile(path, f"sm_{major}{minor}").get_kernel(name)


def run(path: Path, name: str, rows: torch.Tensor, out: torch.Tensor) -> None:
    """Launches kernel(rows, out, M) with one block a row, on torch's current stream of the rows' device.

    Args:
        path: the .cuh file.
        name: its kernel, of signature (const float* x, float* y, long long M).
        rows: (N, M) contiguous float32, N from 1 to 2^31 - 1, M at least 1.
        out: contiguous float32 on the same device, as large as the kernel writes.
    """
    N, M = rows.shape
    device = rows.get_device()
    with torch.cuda.device(device):
        Device(device).set_current()  # a new thread has no context yet
        stream = Stream.from_handle(torch.cuda.current_stream(device).cuda_stream)
        config = LaunchConfig(grid=N, block=BLOCK)
        launch(stream, config, kernel(path, name, device), rows.data_ptr(), out.data_ptr(), M)
