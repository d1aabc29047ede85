"""The first call where something is in its way: others, its end, no folder, no compiler, a new GPU.

Most of it happens in forks of one process, which has imported what takes long.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import torch

import camp_softmax
from camp_softmax import cuda, kernels, tilelang
from camp_softmax.cuda import host
from camp_softmax.tilelang import nvcc
from preloaded import Server

ROOT = Path(__file__).parents[1]
ROW, WEIGHTS = "torch.tensor([[0.0, 1.0, 2.0]])", "[0.09, 0.245, 0.665]"
CALLS = f"""
import sys, torch, camp_softmax
def call(operator, backend=sys.argv[1]):
    y = getattr(camp_softmax, operator)({ROW}, backend=backend)
    return [round(value, 3) for value in y.flatten().tolist()]
"""
ON_CPU = pytest.mark.skipif(torch.cuda.is_available(), reason="with a CUDA device, kernels are for it")
# A compiler that, where $STARTED is set, says so, writes something else and never ends.
SLOW = """#!/bin/sh
if [ -z "$STARTED" ] || [ "$1" = --version ]; then exec g++ "$@"; fi
while [ "$1" != -o ]; do shift; done
echo half > "$2"
touch "$STARTED"
sleep 60
"""


@pytest.fixture(scope="module")
def server():
    server = Server(os.environ | {"PYTHONPATH": str(ROOT)})
    yield server
    server.close()


@pytest.fixture
def empty(tmp_path):
    """Caches, for an environment."""
    return {"TILELANG_CACHE_DIR": str(tmp_path / "tilelang"), "XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.fixture
def run(server, tmp_path):
    """A script's exit code, and what it wrote."""

    def run(code: str, *words: str, **more: str) -> tuple[int, str]:
        with started(code, *words, **more) as script:
            return script.wait(120), (tmp_path / "out").read_text()

    @contextlib.contextmanager
    def started(code: str, *words: str, **more: str):
        (tmp_path / "script.py").write_text(CALLS + textwrap.dedent(code))
        with (tmp_path / "out").open("wb") as out:
            script = server.start([str(tmp_path / "script.py"), *words], os.environ | more, out, out)
        try:
            yield script
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(script.pid, signal.SIGKILL)
            script.wait()

    run.started = started
    return run


def libraries(folder: Path) -> list[str]:
    return sorted(re.sub("-[0-9a-f]+", "", path.name) for path in folder.rglob("*") if path.is_file())


@ON_CPU
def test_eight_processes_at_once(run, backend, empty, tmp_path):
    """Also: forks after import."""
    code = """
    import multiprocessing
    def first(number):
        together.wait()
        return call("logsumexp")
    fork = multiprocessing.get_context("fork")
    together = fork.Barrier(8)
    with fork.Pool(8) as pool:
        print(pool.map(first, range(8), chunksize=1) == 8 * [[2.408]])
    """
    assert run(code, backend, **empty) == (0, "True\n")
    if backend == "cuda":
        assert libraries(tmp_path / "cache") == ["engine.so", "packed.so"]
    else:
        assert libraries(tmp_path / "tilelang").count("kernel_lib.so") == 1


@ON_CPU
def test_a_process_that_is_killed_in_its_first_compile(run, backend, empty, tmp_path):
    compiler, began = tmp_path / "g++", tmp_path / "began"
    environment = empty | {"CXX": str(compiler)}
    compiler.write_text(SLOW)
    compiler.chmod(0o755)
    engine = host._engine()  # takes seconds
    folder = Path(empty["XDG_CACHE_HOME"], "camp_softmax", "host")
    folder.mkdir(parents=True)
    (folder / engine.name).symlink_to(engine)
    code = 'print(call("softmax"))'
    with run.started(code, backend, **environment, STARTED=str(began)) as script:
        until = time.monotonic() + 60
        while not began.exists() and time.monotonic() < until:
            time.sleep(0.01)
        os.kill(script.pid, signal.SIGKILL)  # not its compiler
        assert script.wait(10) == -signal.SIGKILL
        assert began.exists()
        assert not [name for name in libraries(tmp_path) if name.endswith(".so") and name != "engine.so"]
    assert run(code, backend, **environment) == (0, WEIGHTS + "\n")


@ON_CPU
def test_fork_after_the_first_use(run):
    """Both backends, with a kernel that is there and with one that is not."""
    code = """
    import multiprocessing
    def again(backend):
        return call("softmax", backend), call("logsumexp", backend)
    here = [again("tilelang"), again("cuda")]
    with multiprocessing.get_context("fork").Pool(1) as pool:
        print(pool.map(again, ["tilelang", "cuda"]) == here, here[0] == here[1])
    """
    assert run(code, "tilelang") == (0, "True True\n")


@pytest.mark.gpu
def test_a_fork_of_a_process_that_uses_cuda(run):
    """On the GPU that is torch's own error; on the CPU nothing has changed."""
    code = """
    import multiprocessing
    def forked(backend):
        try:
            camp_softmax.softmax(torch.zeros(1, 3, device="cuda"), backend=backend)
        except RuntimeError as error:
            return str(error)
    camp_softmax.softmax(torch.zeros(1, 3, device="cuda"))
    with multiprocessing.get_context("fork").Pool(1) as pool:
        print(pool.map(forked, ["tilelang", "cuda"]))
    """
    status, out = run(code, "auto")
    assert status == 0
    assert out.count("Cannot re-initialize CUDA in forked subprocess") == 2


# --- folders ----------------------------------------------------------------------------------------------


@ON_CPU
def test_tilelang_where_the_user_has_no_home(tmp_path):
    """No $HOME, and nobody of that number in /etc/passwd, as in many a container."""
    code = "import pwd\ndef getpwuid(uid): raise KeyError(uid)\npwd.getpwuid = getpwuid\n" + CALLS
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code + 'print(call("softmax"))', "tilelang"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == WEIGHTS + "\n", done.stderr
    assert "TileLang kernels are not kept on disk: Could not determine home directory" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.fixture
def no_engine(monkeypatch):
    """A kernel is compiled in no time."""

    def compile(command, **options):
        if "-o" in command:
            Path(command[command.index("-o") + 1]).write_text("a library")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(host, "require_compiler", lambda: "g++")
    monkeypatch.setattr(subprocess, "run", compile)


def built() -> Path:
    return host._built("kernel.so", [[]], "it does not compile")


def file_in_the_place(folder: Path, monkeypatch) -> str:
    folder.touch()
    return "File exists|Not a directory"


def read_only(folder: Path, monkeypatch) -> str:
    """For root, too, whom permissions do not stop."""
    folder.mkdir(exist_ok=True)
    open_file = os.open

    def refuse(path, flags, *arguments, **options):
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and Path(path).is_relative_to(folder):
            raise OSError(30, "Read-only file system")
        return open_file(path, flags, *arguments, **options)

    monkeypatch.setattr(os, "open", refuse)
    return "Read-only file system"


def no_home(folder: Path, monkeypatch) -> str:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME")

    def nobody(uid):
        raise KeyError(uid)

    monkeypatch.setattr("pwd.getpwuid", nobody)
    return "Could not determine home directory"


@pytest.mark.parametrize("broken", [file_in_the_place, read_only])
def test_tilelang_without_a_folder(monkeypatch, tmp_path, broken):
    folder = tmp_path / "cache"
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(folder))
    reason = broken(folder, monkeypatch)
    with pytest.warns(RuntimeWarning, match=f"not kept on disk: .*({reason})"):
        tilelang._writable_cache()
    scratch = Path(os.environ["TILELANG_CACHE_DIR"])
    assert scratch.is_dir()
    assert scratch != folder


@pytest.mark.parametrize("broken", [file_in_the_place, read_only, no_home])
def test_cuda_without_a_folder(monkeypatch, tmp_path, no_engine, broken):
    folder = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    reason = broken(folder, monkeypatch)
    with pytest.warns(RuntimeWarning, match=f"not kept on disk: .*({reason})"):
        library = built()
    assert library.read_text() == "a library"
    assert not library.is_relative_to(folder)
    assert built() == library


def test_cuda_with_a_folder_that_can_only_be_read(monkeypatch, tmp_path, no_engine):
    """What is in it is used, and nobody complains."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    library = built()
    read_only(tmp_path / "cache", monkeypatch)
    assert built() == library


@ON_CPU
def test_no_room_for_the_compiler(run, backend, empty):
    """RLIMIT_FSIZE is a disk that is full."""
    code = """
    import resource, os
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    try:
        call("softmax")
    except RuntimeError as error:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        print(error)
    """
    status, out = run(code, backend, **empty)
    assert status == 0
    assert re.search("cannot be written|does not compile.*\n.*File size limit exceeded", out), out


# --- compilers and architectures --------------------------------------------------------------------------


@ON_CPU
@pytest.mark.parametrize("variables", [{"PATH": ""}, {"PATH": "", "CXX": "/no/such/compiler"}])
def test_without_a_compiler(run, variables):
    code = """
    import runpy
    runpy.run_module("camp_softmax", run_name="__main__")
    for operator in ("softmax", "logsumexp"):
        try:
            call(operator)
        except RuntimeError as error:
            print("auto:", error)
    print(call("softmax", "torch"))
    """
    status, out = run(code, "auto", **variables)
    assert status == 0, out
    tilelang = "TileLang's CPU target needs a C++ compiler: install g++, clang++, or set CXX"
    assert f"tilelang: not here. {tilelang}, or use backend='torch'\n" in out
    assert "cuda: not here. CUDA kernels on the CPU need a C++ compiler: install g++ or clang++, or" in out
    assert out.count(f"auto: {tilelang}, or use backend='torch'\n") == 2
    assert f"torch: {WEIGHTS}\n" in out
    assert out.endswith(WEIGHTS + "\n")


@ON_CPU
def test_with_the_c_plus_plus_library_on_the_include_path(run, backend, empty):
    """Its math.h would come before the C library's."""
    said = subprocess.run(
        ["g++", "-E", "-v", "-x", "c++", "/dev/null"], capture_output=True, text=True
    ).stderr
    folders = re.findall(r"^ (\S*c\+\+\S*)$", said, re.M)
    assert folders, said
    out = run("print(call('softmax'))", backend, CPLUS_INCLUDE_PATH=":".join(folders), **empty)
    assert out == (0, WEIGHTS + "\n")


def test_tilelang_without_nvcc(monkeypatch):
    """On a CUDA device; there, "auto" goes on with the CUDA kernels, for which NVRTC is enough."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(nvcc, "get_nvcc_compiler", lambda: "/no/such/nvcc")
    kernels._backend.cache_clear()
    try:
        with pytest.raises(
            RuntimeError, match=r"needs nvcc on a CUDA device: install .*, or use backend='to"
        ):
            camp_softmax.softmax(torch.zeros(1, 2), backend="tilelang")
        monkeypatch.setattr(nvcc, "get_nvcc_compiler", lambda: sys.executable)
        nvcc.require_compiler()
    finally:
        kernels._backend.cache_clear()


@pytest.mark.parametrize(
    ("capability", "found"),
    [((8, 0), "sm_80"), ((9, 0), "sm_90"), ((9, 9), "sm_90"), ((12, 9), "sm_121"), ((10, 2), "sm_100")],
)
def test_an_architecture_newer_than_the_compiler(monkeypatch, capability, found):
    """The nearest whose machine code runs: it compiles."""
    runtime = cuda._runtime(on_gpu=True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    assert runtime.architecture(0) == found
    assert runtime.compile(host.CUDA / "online.cuh", found).code_type == "cubin"
    runtime.require_compiler()


@pytest.mark.parametrize("capability", [(7, 0), (99, 0)])
def test_an_architecture_that_the_compiler_does_not_know(monkeypatch, capability):
    """backends() says so, and "auto" goes on without."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    for cached in (kernels._backend, kernels._cuda):
        cached.cache_clear()
    try:
        number = ".".join(map(str, capability))
        reason = camp_softmax.backends()["cuda"]
        assert re.search(rf"NVRTC does not compile for compute capability {number}, only for .*9\.0", reason)
        assert "install another nvidia-cuda-nvrtc, or use backend='torch'" in reason
        assert kernels._cuda() is None
    finally:
        for cached in (kernels._backend, kernels._cuda):
            cached.cache_clear()
