"""CUDA kernels on the CPU, for everyone without a GPU, under a checker that is always on.

A .cuh file is compiled as it is by g++ or clang++, behind `cuda.hpp`, which says what CUDA C++ means here.
The engine runs its threads as fibers, one at a time, in an order that a seed decides: 0 is the order of their
numbers, any other seed mixes them up. Whatever the order, the checker knows which accesses nothing orders:

- races on shared and on global memory, those with bulk copies and remote stores included;
- barriers that not all threads reach, and threads that wait for ever;
- reads of shared memory that nobody has written;
- accesses out of bounds, or misaligned;
- shuffles whose mask is wrong, or that read from a lane which takes no part.

The first finding ends the launch, as the exception `Finding`: one line that says what, where, and what to do.

    cuda.hpp      in front of every kernel: threads, shared memory, shuffles, atomics, vector types
    ptx.cuh       instead of ../ptx.cuh, whose inline PTX no CPU knows
    engine.hpp    what the two halves of the engine share
    engine.cpp    fibers and their scheduler, barriers, warps, mbarriers, copies, clusters
    checker.cpp   vector clocks and shadow memory

It needs Linux on x86-64, g++ or clang++, and binutils, which g++ brings along. With clang++, a misaligned
vector is not noticed. aarch64 is provided for, with g++, and has not been tried.
"""

import atexit
import contextlib
import ctypes
import fcntl
import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from ctypes import POINTER, Structure, byref, c_char, c_char_p, c_double, c_int, c_size_t, c_uint, c_void_p
from pathlib import Path
from typing import NamedTuple

import torch

from camp_softmax.cuda.plan import BLOCK, READ_ONCE, ROWS_A_BLOCK, Constants, Plan

HERE = Path(__file__).parent
CUDA = HERE.parent  # the kernels
SHARED = 227 << 10  # bytes of dynamic shared memory that a block may ask for, as on sm_90

ENGINE_FLAGS = ("-std=c++17", "-O2", "-g", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra")
KERNEL_FLAGS = (
    *("-std=c++17", "-O1", "-gdwarf-4", "-fPIC", "-fvisibility=hidden", "-w", "-nostdinc++"),
    *("-fno-strict-aliasing", "-ftls-model=global-dynamic"),  # see cuda.hpp: shared memory
    "-fsanitize=thread,alignment,bounds",  # calls into checker.cpp; the sanitizers' libraries are not linked
)
OF_COMPILER = {  # by the first word of what it says of itself
    # Nothing is constructed in shared memory.
    "g++": ("-fno-extern-tls-init", "-fmax-errors=5"),
    # Local bounds stop without a word.
    "clang": ("-fno-sanitize=local-bounds", "-ferror-limit=5"),
}


class Finding(RuntimeError):  # noqa: N818  it is in the kernel, no error of the engine
    """What the checker found: `file:line: what: who and where; what to do`, on one line."""


class Memory(NamedTuple):
    """An argument of a kernel: address and size in bytes of a tensor, and of one of its elements."""

    address: int
    bytes: int
    element: int

    @classmethod
    def of(cls, tensor: torch.Tensor) -> "Memory":
        return cls(tensor.data_ptr(), tensor.numel() * tensor.itemsize, tensor.itemsize)


# --- compiling --------------------------------------------------------------------------------------------


def require_compiler() -> str:
    """The compiler: $CXX, g++ or clang++.

    Raises:
        RuntimeError: there is none, or no binutils, or kernels do not run on this kind of machine.
    """
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        here = f"{platform.system()} on {platform.machine()}"
        raise RuntimeError(
            f"CUDA kernels run on the CPU under Linux on x86-64 or aarch64, and this is {here}"
        )
    compiler = next(filter(shutil.which, (os.environ.get("CXX") or "g++", "g++", "clang++")), None)
    if not compiler:
        raise RuntimeError("CUDA kernels on the CPU need a C++ compiler: install g++ or clang++, or set CXX")
    for tool in ("readelf", "addr2line"):
        if not shutil.which(tool):
            raise RuntimeError(f"CUDA kernels on the CPU need {tool}: install binutils")
    return compiler


def compile(path: Path, name: str, constants: Constants = ()) -> Path:
    """A kernel as a shared library, from the cache if it is there.

    Args:
        path: the .cuh file; what it includes is looked for beside it, then among the package's kernels.
        name: its `extern "C"` kernel.
        constants: macros to define, (name, value) each; BLOCK is always defined.

    Raises:
        RuntimeError: the compiler refused the source (the message has its errors), there is no compiler, or
            the source has inline PTX or no kernel of that name.

    Example:
        >>> compile(CUDA / "online.cuh", "softmax_online").suffix
        '.so'
    """
    source = "\n".join(_lines(path, set()))
    if inline := re.search(r"^.*\basm\b.*\(.*$", source, re.M):
        raise RuntimeError(
            f"{path.name}: the CPU knows no inline PTX: {inline[0].strip()}; put it into ptx.cuh"
        )
    if not re.search(rf"\b{name}\s*\(", source):
        raise RuntimeError(
            f'{path.name} has no kernel {name}: expected extern "C" __global__ void {name}(...)'
        )
    entry = f"""
#define HOST_EXPORT extern "C" __attribute__((visibility("default"), no_sanitize("thread")))
HOST_EXPORT void host_kernel(void** arguments) {{ host::call({name}, arguments); }}
HOST_EXPORT const char* host_letters() {{ return host::letters({name}); }}
"""
    for kind, variable in DYNAMIC.findall(source):
        entry += f"alignas(128) thread_local {kind} {variable}[{SHARED} / sizeof({kind})];\n"
    macros = [f"-D{macro}={value}" for macro, value in (("BLOCK", str(BLOCK)), *constants)]
    header = HERE / "cuda.hpp"
    engine = _engine()
    flags = (*KERNEL_FLAGS, *_own_flags(), *macros)
    key = _key(_version(), flags, source, entry, header.read_text("utf-8"), engine.name)
    problem = f"{path.name} does not compile for the CPU"
    with tempfile.TemporaryDirectory() as folder:
        unit = Path(folder) / "kernel.o"
        to_object = [*flags, "-include", str(header), "-c", "-x", "c++", "-", "-o", str(unit)]
        to_library = ["-shared", str(unit), str(engine), "-Wl,-rpath,$ORIGIN"]
        return _built(f"{path.stem}-{key}.so", [to_object, to_library], problem, source + entry)


DYNAMIC = re.compile(
    r"^\s*extern\s+__shared__\s+(?:(?:__align__|alignas)\s*\([^)]*\)\s*)?([\w:]+(?:\s+[\w:]+)*)\s+(\w+)\s*\[\s*\]",
    re.M,
)


def _lines(path: Path, once: set[Path]) -> Iterator[str]:
    """The source with its headers in their places and the host's ptx.cuh for the GPU's; knows its lines."""
    yield f'#line 1 "{path.resolve()}"'
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        include = re.match(r'\s*#\s*include\s*"(.+)"', line)
        header = _header(include[1], path.parent) if include else None
        if header:
            if header not in once:
                yield from _lines(header, once)
            yield f'#line {number + 1} "{path.resolve()}"'
        elif re.match(r"\s*#\s*pragma\s+once", line):
            once.add(path)
            yield ""
        else:
            yield line


def _header(name: str, folder: Path) -> Path | None:
    """The header of that name; if there is none, the compiler says so."""
    folders = (HERE,) if name == "ptx.cuh" else (folder, CUDA)
    return next((folder / name for folder in folders if (folder / name).exists()), None)


@functools.cache
def _version() -> str:
    run = subprocess.run([require_compiler(), "--version"], capture_output=True, text=True, check=True)
    return run.stdout.splitlines()[0]


def _own_flags() -> tuple[str, ...]:
    flags: tuple[str, ...] = OF_COMPILER["clang" if "clang" in _version() else "g++"]
    if platform.machine() == "aarch64":
        flags += ("-mtls-dialect=trad",)  # asks __tls_get_addr, as on x86-64
    return flags


def _engine() -> Path:
    """The engine as a shared library, which kernels are linked to."""
    sources = [HERE / "engine.cpp", HERE / "checker.cpp"]
    texts = [source.read_text("utf-8") for source in (*sources, HERE / "engine.hpp")]
    library = f"engine-{_key(_version(), ENGINE_FLAGS, *texts)}.so"
    command = [*ENGINE_FLAGS, f"-Wl,-soname,{library}", *map(str, sources)]
    return _built(library, [command], "the engine does not compile")


def _key(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _built(name: str, commands: list[list[str]], problem: str, source: str = "") -> Path:
    """A file of the cache, made by the last command if it is not there: under another name first, so that
    nobody loads half of it. The first command reads the source.
    """
    if os.access(library := _cache() / name, os.R_OK):
        return library
    library = _writable(library.parent) / name
    with _alone(library.with_suffix(".lock")):
        if library.exists():
            return library
        file, scratch = tempfile.mkstemp(dir=library.parent, suffix=".tmp")
        os.close(file)
        try:
            commands[-1] += ["-o", scratch]
            for command in commands:
                done = subprocess.run(
                    [require_compiler(), *command], input=source, capture_output=True, text=True
                )
                if done.returncode:
                    raise RuntimeError(f"{problem}:\n{done.stderr.strip()}")
            os.replace(scratch, library)
        finally:
            Path(scratch).unlink(missing_ok=True)
    return library


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Others who want the same wait, so that it is compiled once. The lock ends with its process."""
    with path.open("w") as file:
        with contextlib.suppress(OSError):  # not every file system has locks; then all of them compile
            fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _cache() -> Path:
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError as error:  # of pathlib, where the user has no home
        return _scratch(str(error))
    return home / "camp_softmax" / "host"


def _writable(folder: Path) -> Path:
    """The folder, or another one where it cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        return _scratch(str(error))
    return folder


@functools.cache
def _scratch(reason: str) -> Path:
    warnings.warn(
        f"kernels compiled for the CPU are not kept on disk: {reason}", RuntimeWarning, stacklevel=5
    )
    folder = tempfile.mkdtemp(prefix="camp-softmax-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


# --- launching --------------------------------------------------------------------------------------------


class _Buffer(Structure):  # as in engine.hpp
    _fields_ = (
        ("begin", c_void_p),
        ("bytes", c_size_t),
        ("element", c_int),
        ("writable", c_int),
        ("name", c_char_p),
    )


class _Variable(Structure):
    _fields_ = (("offset", c_size_t), ("bytes", c_size_t), ("element", c_int), ("name", c_char_p))


class _Launch(Structure):
    _fields_ = (
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("cluster", c_uint),
        ("seed", c_uint),
        ("seconds", c_double),
        ("shared", c_size_t),
        ("buffers", c_int),
        ("variables", c_int),
        ("buffer", POINTER(_Buffer)),
        ("variable", POINTER(_Variable)),
        ("message", c_char * 2000),
    )


SIZES = {
    "float": 4,
    "int": 4,
    "unsigned": 4,
    "float2": 8,
    "float4": 16,
    "double": 8,
}  # of elements, for messages
NUMBERS = {
    "i": c_int,
    "l": ctypes.c_longlong,
    "f": ctypes.c_float,
    "d": c_double,
}  # by the letters of cuda.hpp


class Kernel:
    """A kernel that is compiled and loaded.

    Args:
        path, name, constants: as for `compile`.

    Called with the grid (in blocks) and the block, numbers or tuples of up to three, then with its arguments:
    a `Memory` for each pointer, numbers for the rest. Returns once all threads have.

    Raises:
        Finding: the checker found something; the launch has stopped there.
        TypeError: the kernel takes other arguments.
        ValueError: no GPU takes such a grid or block.
    """

    def __init__(self, path: Path, name: str, constants: Constants = ()) -> None:
        self.name = name
        self.library = compile(path, name, constants)
        try:
            kernel = self._load()
        except OSError:  # a damaged file
            self.library.unlink()
            self.library = compile(path, name, constants)
            kernel = self._load()
        kernel.host_letters.restype = c_char_p
        self.letters = kernel.host_letters().decode()
        self.entry = kernel.host_kernel
        source = "\n".join(_lines(path, set()))
        parameters = re.search(rf"\b{name}\s*\(([^)]*)\)", source)
        assert parameters  # `compile` has looked
        self.parameters = [re.sub(r"\W", " ", text).split()[-1] for text in parameters[1].split(",")]
        self.variables = list(_shared_variables(self.library))
        self.dynamic = {variable for _, variable in DYNAMIC.findall(source)}
        arrays = re.findall(rf"__shared__\s+({'|'.join(SIZES)})\s+(\w+)\s*\[[^\]]*\]\s*;", source)
        self.elements = {variable: SIZES[kind] for kind, variable in arrays}

    def _load(self) -> ctypes.CDLL:
        self.engine = ctypes.CDLL(str(_engine()))
        return ctypes.CDLL(str(self.library))

    def __call__(
        self,
        grid: int | tuple[int, ...],
        block: int | tuple[int, ...],
        *arguments: Memory | float,
        cluster: int = 1,
        shared: int = 0,
        seed: int = 0,
        seconds: float = 0,
    ) -> None:
        """cluster: blocks in one; shared: bytes of dynamic shared memory; seed: of the schedule; seconds: at
        most, 0 being for ever.
        """
        kinds = ["p" if isinstance(argument, Memory) else "n" for argument in arguments]
        if kinds != ["p" if letter in "pc" else "n" for letter in self.letters]:
            takes = ", ".join("a pointer" if letter in "pc" else "a number" for letter in self.letters)
            raise TypeError(f"{self.name} takes ({takes}), got {len(arguments)} arguments: {arguments}")
        launch = _Launch(cluster=cluster, seed=seed, seconds=seconds)
        launch.grid[:], launch.block[:] = _three(grid), _three(block)
        blocks, threads = _product(launch.grid), _product(launch.block)
        if not (1 <= threads <= 1024 and 1 <= blocks < 2**32 and 0 <= shared <= SHARED):
            raise ValueError(
                f"{self.name}: expected up to 1024 threads in a block, up to {SHARED} bytes of shared memory "
                f"and at least one block, got grid {grid}, block {block}, shared {shared}"
            )
        if not 1 <= cluster <= 16 or launch.grid[0] % cluster:
            raise ValueError(
                f"{self.name}: expected clusters of 1 to 16 blocks that divide the grid, got {cluster}"
            )

        values: list[ctypes._SimpleCData] = []
        buffers = []
        for letter, argument, name in zip(self.letters, arguments, self.parameters, strict=True):
            if isinstance(argument, Memory):
                values.append(c_void_p(argument.address))
                buffers.append(_Buffer(*argument, letter == "p", name.encode()))
            else:
                values.append(NUMBERS[letter](argument))  # type: ignore[arg-type] # ctypes looks itself
        pointers = (c_void_p * len(values))(*(ctypes.cast(byref(value), c_void_p) for value in values))
        variables = [
            _Variable(
                offset, shared if name in self.dynamic else size, self.elements.get(name, 0), name.encode()
            )
            for offset, size, name in self.variables
        ]
        launch.shared = max((offset + size for offset, size, _ in self.variables), default=0)
        launch.buffers, launch.buffer = len(buffers), (_Buffer * len(buffers))(*buffers)
        launch.variables, launch.variable = len(variables), (_Variable * len(variables))(*variables)
        if self.engine.host_launch(byref(launch), self.entry, pointers):
            raise Finding(_with_lines(launch.message.decode(), self.library))


def _three(size: int | tuple[int, ...]) -> tuple[int, ...]:
    return (*((size,) if isinstance(size, int) else size), 1, 1)[:3]


def _product(sizes) -> int:
    return sizes[0] * sizes[1] * sizes[2]


@functools.cache
def _shared_variables(library: Path) -> tuple[tuple[int, int, str], ...]:
    """(offset, bytes, name) of each shared variable: to the linker, they are thread-local."""
    command = ["readelf", "--syms", "--wide", str(library)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = set()
    for fields in map(str.split, listing.splitlines()):
        if len(fields) == 8 and fields[3] == "TLS":
            # Inside a function: _Z, the function, E, the length of the name, the name, perhaps a number.
            local = re.search(r"E(\d+)([A-Za-z]\w*)$", fields[7])
            name = local[2][: int(local[1])] if local else fields[7]
            found.add((int(fields[1], 16), int(fields[2], 0), name))
    return tuple(sorted(found))


def _with_lines(message: str, library: Path) -> str:
    """The engine's message with a file and line for each @{place}: an address in the library, or both."""
    addresses = [place for place in re.findall(r"@\{(.+?)\}", message) if ":" not in place]
    places = dict(zip(addresses, _places(library, addresses), strict=True))
    return re.sub(r"@\{(.+?)\}", lambda found: _relative(places.get(str(found[1]), str(found[1]))), message)


def _places(library: Path, addresses: list[str]) -> Iterator[str]:
    """Of each address the innermost place that is not in cuda.hpp."""
    if not addresses:
        return
    command = ["addr2line", "--addresses", "--inlines", f"--exe={library}", *addresses]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for one in re.split(r"^0x[0-9a-f]+\n", listing, flags=re.M)[1:]:
        frames = [frame.partition(" (")[0] for frame in one.splitlines()]
        yield next((frame for frame in frames if not frame.startswith(str(HERE.resolve()))), frames[0])


def _relative(place: str) -> str:
    """From the current folder, if it is in it."""
    path, _, line = place.rpartition(":")
    here = Path.cwd()
    return f"{Path(path).relative_to(here)}:{line}" if Path(path).is_relative_to(here) else place


kernel = functools.cache(Kernel)


def run(path: Path, name: str, rows: torch.Tensor, out: torch.Tensor, *, seed: int = 0) -> None:
    """Launches kernel(rows, out, M) with one block a row, as the GPU's `runtime.run` does.

    Args:
        path: the .cuh file.
        name: its kernel, of signature (const float* x, float* y, long long M).
        rows: (N, M) contiguous float32 on the CPU, N and M at least 1.
        out: contiguous float32 on the CPU, as large as the kernel may write.
        seed: of the schedule.

    Raises:
        Finding: the checker found something.
    """
    N, M = rows.shape
    kernel(path, name)(N, BLOCK, Memory.of(rows), Memory.of(out), M, seed=seed)


class Launcher:
    """A kernel loaded on the CPU: what is left for a call is addresses and sizes.

    Args:
        plan: made for the length and dtype of the rows and the output that is wanted.
        device: -1, as torch counts the CPU.
        folder: where the .cuh file is.

    Called as the GPU's: with the addresses of the rows and of the (N, M) contiguous output, equal modulo 16,
    with N, M and the step from row to row, or for `backward` the address of y; and with the seed of the
    schedule. Raises what `Kernel` does.
    """

    def __init__(self, plan: Plan, device: int = -1, folder: Path = CUDA) -> None:
        self.plan = plan
        self.kernel = kernel(folder / f"{plan.rung}.cuh", plan.entry, plan.constants)

    def __call__(self, x: int, y: int, N: int, M: int, last: int, seed: int = 0) -> None:
        plan = self.plan
        size = plan.itemsize
        step = last if plan.rung in READ_ONCE else M
        rows = Memory(x, ((N - 1) * step + M) * size, size)
        out = Memory(y, N * (1 if plan.reduces else M) * size, size)
        if plan.rung == "cluster":
            counter = torch.zeros(1, dtype=torch.int32)
            clusters = min(plan.in_flight, N)
            self.kernel(
                *(clusters * plan.blocks, plan.threads, rows, out, N, M, step, Memory.of(counter)),
                cluster=plan.blocks,
                shared=plan.shared,
                seed=seed,
            )
            assert not counter.item(), "each launch leaves the counter at zero"
        elif plan.rung in ROWS_A_BLOCK:
            fifth = Memory(last, N * M * size, size) if plan.rung == "backward" else step
            self.kernel(-(-N // plan.rows), plan.threads, rows, out, N, M, fifth, seed=seed)
        else:
            self.kernel(N, plan.threads, rows, out, M, seed=seed)


launcher = functools.cache(Launcher)  # plans of different lengths are often equal
