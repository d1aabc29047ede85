"""Kernels in CUDA C++, one .cuh file a rung: two for float32, and those that read once for every dtype.

They run on the device of their rows: `runtime` compiles and launches them on a GPU, `host` on the CPU, where
a checker looks on. Each is imported when it is first needed, so that the host needs no cuda-core.
"""

import functools
import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from camp_softmax.cuda import plan
from camp_softmax.limits import ALIGNMENT, LARGEST

HERE = Path(__file__).parent
ONE_BLOCK_A_ROW = ("three_pass", "online")  # float32, a block of 256 threads each
OPERATORS = ("softmax", "log_softmax", "logsumexp")
KERNELS = {  # rung: the operators it has
    "three_pass": ("softmax",),
    "online": ("softmax", "logsumexp"),
    "single_read": OPERATORS,
    "cluster": OPERATORS,
}


def softmax(rows: Tensor, *, rung: str = "auto") -> Tensor:
    """softmax of each row, on the rows' device: a GPU, or the CPU under the checker of `host`.

    Args:
        rows: (N, M) contiguous float32, float16 or bfloat16 on a CPU or a CUDA device, N and M at least 1.
        rung: "three_pass" or "online" (float32), "single_read" (up to 65536 columns), "cluster" (up to
            524288, on a CPU or a GPU with clusters), or "auto": what was measured to be fastest on a GPU for
            this length.

    Returns:
        tensor of the shape and dtype of `rows`; a row with NaN or +inf, or of -inf only, is NaN.

    Raises:
        TypeError: `rows` is no such tensor, or the rung does not take its dtype.
        ValueError: it is on another device, not two-dimensional, empty, strided, or its rows are too long
            for the rung; there is no such rung. Nothing is launched.
        RuntimeError: the device has no clusters; on the CPU, there is no compiler, or the checker found
            something (`host.Finding`).
        ImportError: on a GPU, cuda-core cannot be imported.

    Example:
        >>> softmax(torch.tensor([[0.0, 1.0, 2.0]]))
        tensor([[0.0900, 0.2447, 0.6652]])
    """
    return _run("softmax", rows, rung)


def log_softmax(rows: Tensor, *, rung: str = "auto") -> Tensor:
    """log(softmax(rows)) as x - m - log(s), which takes no logarithm of a 0. Arguments as for `softmax`."""
    return _run("log_softmax", rows, rung)


def logsumexp(rows: Tensor, *, rung: str = "auto") -> Tensor:
    """log sum_j exp(x_j) of each row; (N, M) to (N,). Arguments and errors as for `softmax`."""
    return _run("logsumexp", rows, rung)


def run(path: Path, name: str, rows: Tensor, out: Tensor) -> None:
    """Launches kernel(rows, out, M) of any .cuh file with one block a row, on the rows' device.

    Args:
        path: the .cuh file.
        name: its kernel, `extern "C"`, of signature (const float* x, float* y, long long M).
        rows: (N, M) contiguous float32, N from 1 to 2^31 - 1, M at least 1.
        out: contiguous float32 on the same device, as large as the kernel writes.

    Raises:
        RuntimeError: the file does not compile; on the CPU, the checker found something (`host.Finding`).

    Example:
        >>> y = torch.empty(1, 3)
        >>> run(HERE / "online.cuh", "softmax_online", torch.tensor([[0.0, 1.0, 2.0]]), y)
        >>> y
        tensor([[0.0900, 0.2447, 0.6652]])
    """
    _runtime(rows.is_cuda).run(path, name, rows, out)


@functools.cache
def _runtime(on_gpu: bool) -> ModuleType:
    """The module that compiles and launches: both have the same `run` and `launcher`."""
    if not on_gpu:
        return importlib.import_module("camp_softmax.cuda.host")
    try:
        return importlib.import_module("camp_softmax.cuda.runtime")
    except Exception as error:  # a missing wheel, or a libnvrtc that does not load
        raise ImportError(f"cuda-core cannot be imported ({type(error).__name__}: {error})") from error


def _run(operator: str, rows: Tensor, rung: str) -> Tensor:
    names = ["auto", *(name for name, has in KERNELS.items() if operator in has)]
    if rung not in names:
        raise ValueError(f"{operator}: expected rung to be one of {', '.join(names)}, got {rung!r}")
    _check(rows)
    return _launch(operator, rows, rung)


def _launch(operator: str, rows: Tensor, rung: str = "auto") -> Tensor:
    """The operator on rows that are checked already: (..., M), not empty. Strides may be any: rows that are
    whole and equally far apart are read where they are, others from a copy.
    """
    M = rows.shape[-1]
    step = M if rows.is_contiguous() else _step(rows)
    if step is None:
        rows, step = rows.contiguous(), M
    x = rows.data_ptr()
    aligned = not (x | M * rows.itemsize) % ALIGNMENT
    ready = _launcher(operator, rung, M, rows.dtype, aligned, step == M, rows.get_device())
    if step != M and ready.plan.rung in ONE_BLOCK_A_ROW:
        return _launch(operator, rows.contiguous(), rung)
    out = rows.new_empty(rows.shape[:-1]) if operator == "logsumexp" else _empty_alike(rows, x)
    ready(x, out.data_ptr(), rows.numel() // M, M, step)
    return out


def _launch_backward(operator: str, grad: Tensor, y: Tensor) -> Tensor:
    """The gradient of x from that of y, softmax(x) or log_softmax(x): both (..., M) contiguous, of one dtype,
    not empty.
    """
    address, M = y.data_ptr(), y.shape[-1]
    if (grad.data_ptr() - address) % ALIGNMENT:  # of three tensors each vector begins at the same place
        grad = _empty_alike(y, address).copy_(grad)
    aligned = not (address | M * y.itemsize) % ALIGNMENT
    ready = _launcher(operator, "backward", M, y.dtype, aligned, True, y.get_device())
    out = _empty_alike(y, address)
    ready(grad.data_ptr(), out.data_ptr(), y.numel() // M, M, address)
    return out


@functools.lru_cache(maxsize=4096)
def _launcher(
    operator: str, rung: str, M: int, dtype: torch.dtype, aligned: bool, dense: bool, device: int
) -> Any:  # runtime.Launcher or host.Launcher
    """device: number of the CUDA device, or -1."""
    found = fastest(operator, M, dtype, device) if rung == "auto" else rung
    if not found:
        raise ValueError(
            f"cuda: rows of {M} elements in {dtype} are too long for {operator} here; use backend='tilelang'"
        )
    if found in ONE_BLOCK_A_ROW:
        if dtype != torch.float32:
            raise TypeError(f"cuda: {found} takes float32, got {dtype}; use rung='auto'")
        made = plan.one_block_a_row(found, operator)
    elif found == "single_read":
        made = plan.single_read(M, dtype, operator.upper(), aligned, dense)
    else:
        make = plan.backward if found == "backward" else plan.cluster
        made = make(M, dtype, operator.upper(), aligned)
    return _runtime(device >= 0).launcher(made, device)


@functools.lru_cache(maxsize=1024)
def fastest(operator: str, M: int, dtype: torch.dtype, device: int) -> str | None:
    """The rung for rows of M elements on CUDA device number `device`, or on the CPU, -1; None if none takes
    them.
    """
    has_clusters = device < 0 or torch.cuda.get_device_capability(device) >= (9, 0)
    longest = plan.LONGEST_SINGLE_READ if has_clusters else plan.CAPACITY
    if longest >= M:
        return "single_read"
    if M <= plan.LONGEST_CLUSTER and has_clusters:
        return "cluster"
    return "online" if dtype == torch.float32 and operator in KERNELS["online"] else None


def _step(rows: Tensor) -> int | None:
    """How many elements after a row of (..., M) the next one begins, if all are whole and equally far apart,
    and where a vector of the output begins, one of theirs does; else None.
    """
    M = rows.shape[-1]
    try:
        step, within = rows.view(-1, M).stride()
    except RuntimeError:  # torch's word for not equally far apart
        return None
    if (within != 1 and M > 1) or (step - M) * rows.itemsize % ALIGNMENT:
        return None
    return step


def _empty_alike(rows: Tensor, address: int) -> Tensor:
    """An output for rows at this address, which starts at the same place between two multiples of 16 bytes:
    vector stores need it.
    """
    beyond = address % ALIGNMENT // rows.itemsize
    if not beyond:
        return torch.empty_like(rows, memory_format=torch.contiguous_format)
    return rows.new_empty(rows.numel() + beyond)[beyond:].view(rows.shape)


def _check(rows: Tensor) -> None:
    if not isinstance(rows, Tensor) or rows.layout != torch.strided or rows.is_neg():
        raise TypeError(f"cuda: expected a dense tensor in memory, got {type(rows).__name__}")
    if rows.dtype not in plan.ELEMENTS:
        takes = ", ".join(map(str, plan.ELEMENTS))
        raise TypeError(f"cuda: the kernels take {takes}, got {rows.dtype}; convert with x.to(...)")
    if rows.device.type not in ("cpu", "cuda"):
        raise ValueError(f"cuda: expected a tensor on a CPU or a CUDA device, got one on {rows.device}")
    if rows.dim() != 2 or not 0 < rows.shape[0] <= LARGEST or not rows.numel() or not rows.is_contiguous():
        raise ValueError(
            f"cuda: expected contiguous rows (N, M), 1 <= N < 2^31, M >= 1, got shape {tuple(rows.shape)}, "
            f"strides {rows.stride()}"
        )
    if not rows.data_ptr():
        raise ValueError("cuda: expected a tensor in memory, got one without storage")
