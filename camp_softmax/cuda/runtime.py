"""Compiles the .cuh files with NVRTC, keeps the result on disk, and launches on torch's stream.

Compiling needs neither a GPU nor a driver, only an explicit architecture such as "sm_90".
"""

import functools
import hashlib
import re
import threading
import warnings
from collections.abc import Iterator
from ctypes import c_int
from pathlib import Path

import torch
from cuda.bindings import driver, nvrtc
from cuda.core import Device, Kernel, LaunchConfig, ObjectCode, Program, ProgramOptions, Stream, launch
from cuda.core.utils import FileStreamProgramCache, make_program_cache_key

from camp_softmax.cuda.plan import BLOCK, ROWS_A_BLOCK, Constants, Plan

HERE = Path(__file__).parent


def compile(path: Path, arch: str, constants: Constants = ()) -> ObjectCode:
    """A .cuh file as machine code.

    Args:
        path: the file; what it includes is looked for beside it, then in this folder.
        arch: the architecture, such as "sm_80", "sm_90a" or "sm_100".
        constants: macros to define, (name, value) each; BLOCK is always defined.

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
        include_path=[str(path.parent), str(HERE)],
        define_macro=[("BLOCK", str(BLOCK)), *constants],
    )
    headers = "".join(_headers(source, path.parent))
    key = make_program_cache_key(
        code=source,
        code_type="c++",
        options=options,
        target_type="cubin",
        extra_digest=hashlib.sha256(headers.encode()).digest(),
    )
    try:
        with _cache() as cache:
            cubin = cache.get(key)
            if not (cubin and cubin.startswith(b"\x7fELF")):  # none yet, or a damaged file
                cache[key] = cubin = bytes(_compile(source, options, path).code)
    except OSError as error:
        warnings.warn(f"compiled CUDA kernels are not kept on disk: {error}", RuntimeWarning, stacklevel=2)
        return _compile(source, options, path)
    return ObjectCode.from_cubin(cubin, name=path.name)


def _cache() -> FileStreamProgramCache:
    """$XDG_CACHE_HOME/cuda-python/program-cache; an OSError says why it cannot be."""
    try:
        return FileStreamProgramCache()
    except RuntimeError as error:  # of pathlib, where the user has no home
        raise OSError(error) from error


def _headers(source: str, folder: Path) -> Iterator[str]:
    """The text of each header that the source includes, and of what that includes in turn."""
    for name in re.findall(r'^#include "(.+)"$', source, re.M):
        for path in (folder / name, HERE / name):  # if it is in neither, NVRTC says so
            if path.exists():
                yield (text := path.read_text(encoding="utf-8"))
                yield from _headers(text, folder)
                break


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


def architecture(device: int) -> str:
    """What to compile for on CUDA device number `device`, such as "sm_90": the device's own, or, where that
    is newer than NVRTC, the newest whose machine code it runs.

    Raises:
        RuntimeError: NVRTC knows none.
    """
    major, minor = torch.cuda.get_device_capability(device)
    _, known = nvrtc.nvrtcGetSupportedArchs()  # 90 for 9.0; code runs on later minor versions, not on others
    runs = [arch for arch in known if arch // 10 == major and arch % 10 <= minor]
    if not runs:
        raise RuntimeError(
            f"NVRTC does not compile for compute capability {major}.{minor}, only for "
            f"{', '.join(f'{arch / 10}' for arch in known)}: install another nvidia-cuda-nvrtc"
        )
    return f"sm_{max(runs)}"


def require_compiler() -> None:
    """Raises the RuntimeError of `architecture` for the current device."""
    architecture(torch.cuda.current_device())


@functools.cache
def kernel(path: Path, name: str, device: int, constants: Constants = ()) -> Kernel:
    """The `extern "C"` kernel `name` of a .cuh file, loaded on CUDA device number `device`."""
    with torch.cuda.device(device):
        return compile(path, architecture(device), constants).get_kernel(name)


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
    chosen = kernel(path, name, device)
    with torch.cuda.device(device):
        launch(_stream(device), LaunchConfig(grid=N, block=BLOCK), chosen, rows.data_ptr(), out.data_ptr(), M)


class Launcher:
    """A kernel loaded on one device: what is left for a call is addresses and sizes.

    Args:
        plan: made for the length and dtype of the rows and the output that is wanted.
        device: number of the CUDA device.
        folder: where the .cuh file is.

    Called with the addresses of the rows and of the (N, M) contiguous output, equal modulo 16, with N, 1 to
    2^31 - 1, M, and last the step from row to row, in elements: M, or for the rungs that read once also what
    equals it modulo 16 bytes. `backward` takes the address of y instead. Launches on torch's current stream
    of the device.

    Raises:
        RuntimeError: the plan needs clusters, and the device has none.
    """

    def __init__(self, plan: Plan, device: int, folder: Path = HERE) -> None:
        self.plan, self.device = plan, device
        if plan.rung == "cluster" and torch.cuda.get_device_capability(device) < (9, 0):
            raise RuntimeError("cluster.cuh needs a GPU with clusters, compute capability 9.0 or later")
        self.kernel = kernel(folder / f"{plan.rung}.cuh", plan.entry, device, plan.constants)
        self.configs: dict[int, LaunchConfig] = {}  # by grid
        if plan.rung == "cluster":
            with torch.cuda.device(device):
                self.clusters = min(plan.in_flight, self._clusters_that_fit())

    def __call__(self, x: int, y: int, N: int, M: int, last: int) -> None:
        if torch._C._cuda_getDevice() != self.device:
            with torch.cuda.device(self.device):
                return self(x, y, N, M, last)
        stream = _stream(self.device)
        if self.plan.rung in ROWS_A_BLOCK:
            launch(stream, self._config(-(-N // self.plan.rows)), self.kernel, x, y, N, M, last)
        elif self.plan.rung == "cluster":
            counter = _counter(self.device, stream).data_ptr()
            launch(stream, self._config(min(self.clusters, N)), self.kernel, x, y, c_int(N), M, last, counter)
        else:
            launch(stream, self._config(N), self.kernel, x, y, M)

    def _config(self, grid: int) -> LaunchConfig:
        """grid: blocks, or clusters where a row takes one. Kept, as making one takes as long as a check."""
        config = self.configs.get(grid)
        if config is None:
            plan = self.plan
            cluster = plan.blocks if plan.rung == "cluster" else None
            config = LaunchConfig(grid=grid, cluster=cluster, block=plan.threads, shmem_size=plan.shared)
            if len(self.configs) < 1024:
                self.configs[grid] = config
        return config

    def _clusters_that_fit(self) -> int:
        plan, attribute = self.plan, driver.CUfunction_attribute
        _allow(
            self.kernel, self.device, attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, plan.shared
        )
        # For 16 blocks; 8 are what every GPU with clusters has.
        _allow(self.kernel, self.device, attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)
        fit = self.kernel.occupancy.max_active_clusters(self._config(1), stream=_stream(self.device))
        if fit < 1:
            raise RuntimeError(f"cluster.cuh: no cluster of {plan.blocks} blocks fits this GPU")
        return fit


launcher = functools.cache(Launcher)  # plans of different lengths are often equal

_threads = threading.local()  # .devices: those whose context this thread has
_streams: dict[tuple[int, int], Stream] = {}


def _stream(device: int) -> Stream:
    """torch's current stream of the device, which is the current one.

    Runs before each launch, so it asks as little as it can: torch's public way takes as long as the launch.
    """
    devices = _threads.__dict__.setdefault("devices", set())
    if device not in devices:
        Device(device).set_current()  # a new thread has no context yet
        devices.add(device)
    handle = torch._C._cuda_getCurrentRawStream(device)
    stream = _streams.get((device, handle))
    if stream is None:
        stream = _streams[device, handle] = Stream.from_handle(handle)
    return stream


def _allow(chosen: Kernel, device: int, attribute: driver.CUfunction_attribute, value: int) -> None:
    (error,) = driver.cuKernelSetAttribute(attribute, value, chosen.handle, device)
    if error != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"cluster.cuh: {attribute.name} = {value} is refused: {error.name}")


_counters: dict[tuple[int, int], torch.Tensor] = {}


def _counter(device: int, stream: Stream) -> torch.Tensor:
    """A zero on the device. Each launch leaves it at zero, so launches of one stream may share it.

    A CUDA graph may be replayed while its stream works on something else: it gets a counter of its own, which
    it sets to zero in each replay.
    """
    if torch.cuda.is_current_stream_capturing():
        return torch.zeros(1, dtype=torch.int32, device=device)
    key = device, int(stream.handle)
    if key not in _counters:
        _counters[key] = torch.zeros(1, dtype=torch.int32, device=device)
    return _counters[key]
