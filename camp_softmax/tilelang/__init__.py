"""Kernels in TileLang, one file a rung, and the one way to compile them: `build`."""

import atexit
import logging
import os
import shutil
import tempfile
import warnings
from pathlib import Path

import torch
from torch import Tensor

from camp_softmax.limits import ALIGNMENT, LARGEST


def _writable_cache() -> None:
    """Points tilelang's cache at a temporary folder if its own cannot be written: its import would fail."""
    try:
        folder = Path(os.environ.get("TILELANG_CACHE_DIR") or Path.home() / ".tilelang/cache")
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except (OSError, RuntimeError) as error:
        warnings.warn(
            f"compiled TileLang kernels are not kept on disk: {error}", RuntimeWarning, stacklevel=2
        )
        os.environ["TILELANG_CACHE_DIR"] = scratch = tempfile.mkdtemp(prefix="tilelang-")
        if isinstance(error, RuntimeError):  # no home, and tilelang wants to see a cache there
            os.environ.setdefault("XDG_CACHE_HOME", scratch)
        atexit.register(shutil.rmtree, scratch, ignore_errors=True)


_writable_cache()
try:
    import tilelang
except Exception as error:  # a broken CUDA installation shows up here as OSError, RuntimeError, …
    raise ImportError(f"tilelang cannot be imported ({type(error).__name__}: {error})") from error

for logger in (
    "tilelang",
    "tilelang.cache.kernel_cache",
):  # they log to stdout, some lines on a cold cache only
    logging.getLogger(logger).setLevel(logging.ERROR)

from tvm import tirx  # noqa: E402  tilelang brings its own tvm
from tvm.tirx import PrimFunc  # noqa: E402


class Kernel:
    """A compiled TileLang program that looks at its tensors before it launches.

    Called with the program's tensors in order, inputs first; it fills the outputs and returns None. On a
    CUDA device the launch is asynchronous, on torch's current stream.
    """

    def __init__(self, program: PrimFunc, device: torch.device, pass_configs: dict | None = None) -> None:
        self.name = str(program.attrs["global_symbol"])
        self.device = device
        if any(parameter not in program.buffer_map for parameter in program.params):
            raise TypeError(f"{self.name}: expected tensors as the only arguments of a program")
        self.buffers = [program.buffer_map[parameter] for parameter in program.params]
        for size in (size for buffer in self.buffers for size in buffer.shape):
            if not isinstance(size, (tirx.Var, tirx.IntImm)):
                raise TypeError(f"{self.name}: expected sizes that are numbers or names, got {size}")
        if device.type == "cuda":
            with torch.cuda.device(device):
                self.launch = tilelang.compile(program, target="cuda", pass_configs=pass_configs)
        else:
            from camp_softmax.tilelang import cpu

            self.launch = cpu.compile(program)

    def __call__(self, *tensors: Tensor) -> None:
        if len(tensors) != len(self.buffers):
            raise TypeError(f"{self.name}: expected {len(self.buffers)} tensors, got {len(tensors)}")
        sizes: dict[str, int] = {}
        for tensor, buffer in zip(tensors, self.buffers, strict=True):
            self._check(tensor, buffer, sizes)
        if self.device.type == "cuda":
            with torch.cuda.device(self.device):
                self.launch(*tensors)
        else:
            self.launch(*tensors)

    def _check(self, tensor: Tensor, buffer, sizes: dict[str, int]) -> None:
        what = f"{self.name}: argument {buffer.name}"
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{what}: expected a tensor, got {type(tensor).__name__}")
        if tensor.layout != torch.strided or tensor.is_neg():
            raise TypeError(f"{what}: expected a dense tensor in memory, got a sparse one or a lazy view")
        if str(tensor.dtype) != f"torch.{buffer.dtype}":
            raise TypeError(f"{what}: expected torch.{buffer.dtype}, got {tensor.dtype}")
        if tensor.device != self.device:
            raise ValueError(f"{what}: built for {self.device}, got a tensor on {tensor.device}")
        names = [str(n) for n in buffer.shape]
        if tensor.dim() == len(names):  # a dimension that is a name (N) is as large as where it comes first
            sizes.update({n: size for n, size in zip(names, tensor.shape, strict=True) if n not in sizes})
        wanted = [n if n.isdigit() else str(sizes.get(n, n)) for n in names]
        if [str(size) for size in tensor.shape] != wanted:
            raise ValueError(f"{what}: expected shape ({', '.join(wanted)}), got {tuple(tensor.shape)}")
        if tensor.numel() == 0:
            raise ValueError(f"{what}: got an empty tensor {tuple(tensor.shape)}; there is nothing to launch")
        if max(tensor.shape) > LARGEST:
            raise ValueError(f"{what}: expected sizes up to {LARGEST}, got {tuple(tensor.shape)}; split it")
        if not tensor.data_ptr():
            raise ValueError(f"{what}: expected a tensor in memory, got one without storage")
        if not tensor.is_contiguous() or tensor.data_ptr() % ALIGNMENT:
            raise ValueError(
                f"{what}: expected a contiguous tensor that starts at a multiple of {ALIGNMENT} bytes, got "
                f"strides {tensor.stride()} at offset {tensor.data_ptr() % ALIGNMENT}; pass x.clone("
                "memory_format=torch.contiguous_format)"
            )


def build(program: PrimFunc, device: torch.device | str, *, pass_configs: dict | None = None) -> Kernel:
    """Compiles a TileLang program for a device: CUDA as it is, CPU through `camp_softmax.tilelang.cpu`.

    Args:
        program: a PrimFunc whose arguments are tensors, inputs first, outputs last.
        device: where its tensors will be, such as x.device.
        pass_configs: options of TileLang's CUDA compiler, such as {"tl.disable_warp_specialized": True}; the
            CPU target has none.

    Raises:
        TypeError: the program cannot run on a CPU (see cpu.py). Called with a wrong dtype or number of
            tensors.
        ValueError: called with tensors of another shape or device, empty, strided or misaligned: nothing
            is launched then.

    Example:
        >>> from camp_softmax.tilelang.online import softmax_kernel
        >>> kernel = build(softmax_kernel(3, "float32"), "cpu")
        >>> x = torch.tensor([[0.0, 1.0, 2.0], [0.0, 0.0, 0.0]])
        >>> y = torch.empty_like(x)
        >>> kernel(x, y)
        >>> y
        tensor([[0.0900, 0.2447, 0.6652],
                [0.3333, 0.3333, 0.3333]])
    """
    return Kernel(program, torch.empty(0, device=device).device, pass_configs)
