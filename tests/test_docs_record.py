"""What a process records of itself while blocks are stamped."""

import json
import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# The parts of torch that the recorder touches, with a device that always launched these kernels.
TORCH = """
from torch import autograd, cuda

def ones(*size, device):
    autograd.launch("void at::native::fill<4>(int)")
"""
CUDA = """
waiting = []

def _lazy_call(call):
    waiting.append(call)

def init():
    for call in waiting:
        call()

def synchronize():
    pass
"""
AUTOGRAD = """
import enum

class DeviceType(enum.Enum):
    CPU, CUDA = 0, 1

class Event:
    def __init__(self, name, device_type, start):
        self.name, self.device_type = lambda: name, lambda: device_type
        self.start_ns = lambda: start
        self.is_user_annotation = lambda: False

seen, blind = [], False

def launch(name, device_type=DeviceType.CUDA):
    if not blind:
        seen.append(Event(name, device_type, len(seen)))

class Result:
    def events(self):
        return reversed(seen)

def _disable_profiler():
    return Result()
"""
PROFILER = """
import torch

class profile:
    def __init__(self, use_cpu, use_device, use_kineto):
        torch.autograd.seen.clear()

    def __enter__(self):
        pass
"""
LAUNCHES = """
import torch
torch.autograd.launch("seen too early")
torch.cuda.init()
for name in "softmax_kernel", "Memcpy HtoD (Pageable -> Device)", "void ns::scan<4, F<1>>(int)":
    torch.autograd.launch(name)
torch.autograd.launch("softmax_kernel")
torch.autograd.launch("cudaLaunchKernel", torch.autograd.DeviceType.CPU)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "docs" / "hooks" / "record", tmp_path / "docs" / "hooks" / "record")
    for name, text in {
        "camp_softmax/__init__.py": "",
        "camp_softmax/a.py": "",
        "camp_softmax/unused.py": "",
        "camp_softmax/a.cuh": "",
        "fake/torch/__init__.py": TORCH,
        "fake/torch/cuda.py": CUDA,
        "fake/torch/autograd/__init__.py": AUTOGRAD,
        "fake/torch/autograd/profiler.py": PROFILER,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "records").mkdir()
    return tmp_path


def run(tree: Path, code: str, *paths: Path) -> subprocess.CompletedProcess[str]:
    paths = (tree / "docs" / "hooks" / "record", tree, *paths)
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "CAMP_SOFTMAX_RECORD": str(tree / "records"),
    }
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True)


def record(tree: Path) -> dict | None:
    (path,) = (tree / "records").iterdir()
    return json.loads(path.read_text() or "null")


def test_it_lists_the_files_that_were_imported_or_opened(tree: Path) -> None:
    for name in ("data.bin", "site/a.txt", ".cache/a.txt", "a.egg-info/PKG-INFO"):
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_text("data")
    reads = (
        "for name in 'camp_softmax/a.cuh', b'data.bin', 'site/a.txt', '.cache/a.txt', 'a.egg-info/PKG-INFO':"
    )
    code = f"import camp_softmax.a, sys\n{reads}\n    open(name)\nprint(len(sys.path))"
    files = ["camp_softmax/__init__.py", "camp_softmax/a.cuh", "camp_softmax/a.py", "data.bin"]
    done = run(tree, code)
    assert record(tree) == {
        "files": {name: sha256((tree / name).read_bytes()).hexdigest() for name in files},
        "kernels": [],
    }
    assert done.stderr == ""
    plain = subprocess.run(
        [sys.executable, "-c", "import sys; print(len(sys.path))"],
        env=os.environ | {"PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
    )
    assert done.stdout == plain.stdout


@pytest.mark.parametrize("ending", ["import sys; sys.exit(3)", "1 / 0"])
def test_it_survives_errors_and_exits(tree: Path, ending: str) -> None:
    assert run(tree, f"import camp_softmax\n{ending}").returncode
    assert list(record(tree)["files"]) == ["camp_softmax/__init__.py"]


def test_it_keeps_the_file_as_it_was_when_it_was_read(tree: Path) -> None:
    run(tree, "import camp_softmax\nopen('camp_softmax/__init__.py', 'w').write('x = 1')")
    assert record(tree)["files"] == {"camp_softmax/__init__.py": sha256(b"").hexdigest()}


def test_a_compiled_module_stands_for_its_source(tree: Path) -> None:
    assert run(tree, "import camp_softmax.a").stderr == ""
    next((tree / "records").iterdir()).unlink()
    run(tree, "import camp_softmax.a, sys\ndel sys.modules['camp_softmax.a'], sys.modules['camp_softmax']")
    assert list(record(tree)["files"]) == ["camp_softmax/__init__.py", "camp_softmax/a.py"]


def test_a_process_that_dies_leaves_an_empty_record(tree: Path) -> None:
    run(tree, "import os; os._exit(0)")
    assert record(tree) is None


def test_a_fork_does_not_write_for_its_parent(tree: Path) -> None:
    run(tree, "import os\npid = os.fork()\nif pid:\n    os.waitpid(pid, 0)\n    os._exit(0)")
    assert record(tree) is None


def test_it_runs_the_sitecustomize_that_it_hides(tree: Path) -> None:
    (tree / "other").mkdir()
    (tree / "other" / "sitecustomize.py").write_text("print('chained')")
    assert run(tree, "", tree / "other").stdout == "chained\n"
    assert list(record(tree)["files"]) == ["other/sitecustomize.py"]


def test_it_names_kernels_in_order_of_first_launch(tree: Path) -> None:
    assert run(tree, LAUNCHES, tree / "fake").stderr == ""
    assert record(tree)["kernels"] == ["softmax_kernel", "ns::scan"]


def test_a_process_that_does_not_start_cuda_launched_nothing(tree: Path) -> None:
    run(tree, "import torch", tree / "fake")
    assert record(tree)["kernels"] == []


def test_a_profiler_that_sees_nothing_leaves_an_empty_record(tree: Path) -> None:
    run(tree, f"import torch\ntorch.autograd.blind = True\n{LAUNCHES}", tree / "fake")
    assert record(tree) is None


def test_a_broken_context_keeps_what_was_seen(tree: Path) -> None:
    broken = "def fail():\n    raise RuntimeError\ntorch.cuda.synchronize = fail"
    run(tree, f"{LAUNCHES}\n{broken}", tree / "fake")
    assert record(tree)["kernels"] == ["softmax_kernel", "ns::scan"]


def test_torch_still_has_what_the_recorder_needs(tree: Path) -> None:
    code = "import torch\ntorch.autograd._disable_profiler, torch.cuda._lazy_call"
    assert run(tree, code).stderr == ""
    assert record(tree)["kernels"] == []


@pytest.mark.gpu
def test_it_names_the_kernels_of_a_real_device(tree: Path) -> None:
    code = "import torch\nx = torch.arange(9.0).cuda()\n(x + 1).cumsum(0)\nprint(x.sum().item())"
    done = run(tree, code)
    assert done.stdout == "36.0\n"
    kernels = record(tree)["kernels"]
    assert kernels[0] == "at::native::vectorized_elementwise_kernel"
    assert any("reduce" in name for name in kernels)
    assert not any("Mem" in name or "(" in name for name in kernels)


@pytest.mark.gpu
def test_a_real_device_that_was_only_asked_for_launches_nothing(tree: Path) -> None:
    run(tree, "import torch\ntorch.cuda.get_device_name()")
    assert record(tree)["kernels"] == []
    for path in (tree / "records").iterdir():
        path.unlink()
    run(tree, "import torch\ntorch.cuda.is_available()\nassert not torch.cuda.is_initialized()")
    assert record(tree)["kernels"] == []
