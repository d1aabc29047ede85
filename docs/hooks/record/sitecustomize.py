"""Records what a Python process of a block loaded and launched; Python imports it at start-up.

It lies first on PYTHONPATH while blocks are stamped. Each process leaves one JSON file in
$CAMP_SOFTMAX_RECORD: an empty one at its start, the record at its end. So a process that dies
early leaves an empty file, which is an error, never a record that claims nothing happened.

It prints nothing, and neither imports torch nor starts CUDA in a process that would not have.
It holds torch's profiler, so a block that opens its own cannot be stamped: it fails, visibly.
"""

import atexit
import contextlib
import hashlib
import importlib.util
import json
import os
import re
import sys
import time
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
# What an environment, a build or a cache leaves in the repository is none of its files.
LEFT = re.compile(
    r"(?:\.git|\.venv|site|\.\w*cache|docs/hooks/record|[^/]+\.egg-info)/|.*\b__pycache__/|.*\.pyc$"
)


def readable(kernel: str) -> str:
    """`at::native::fill` of `void at::native::(anonymous namespace)::fill<4>(float*)`."""
    name = kernel.replace("(anonymous namespace)::", "")
    return re.split(r"[<(]", name, maxsplit=1)[0].split(" ")[-1] or kernel


class Recorder:
    """One process: the files of the repository that it reads, and the kernels that run on its device."""

    def __init__(self, folder: Path) -> None:
        # The names sort by start, and so do the kernels of a block with several processes.
        self.path = folder / f"{time.time_ns()}-{os.getpid()}.json"
        self.path.touch()
        self.process = os.getpid()
        self.files: dict[str, str | None] = {}  # with the digest at first sight
        self.kernels: list[str] | None = []  # None: they ran unseen
        sys.addaudithook(self.audit)
        sys.meta_path.insert(0, self)
        atexit.register(self.finish)

    def audit(self, event: str, arguments: tuple) -> None:
        """Note each file that Python code opens, to import it or to read it."""
        if event == "open" and isinstance(arguments[0], (str, bytes)):
            self.note(os.fsdecode(arguments[0]))

    def note(self, path: str) -> None:
        """Keep the digest of a file of the repository; of a compiled one, that of its source."""
        with contextlib.suppress(OSError, ValueError):
            if path.endswith(".pyc"):
                path = importlib.util.source_from_cache(path)
            name = os.path.relpath(os.path.realpath(path), ROOT)
            if name in self.files or name.startswith("..") or LEFT.match(name) or not os.path.isfile(path):
                return
            self.files[name] = None  # first: reading it is an opening too
            self.files[name] = hashlib.sha256(Path(path).read_bytes()).hexdigest()

    def find_spec(self, name: str, path=None, target=None) -> ModuleSpec | None:
        """Have torch call `watch` right after it has started CUDA, before any launch.

        A finder, because torch comes late or never, and because the profiler would start CUDA.
        """
        if name != "torch.cuda":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        loader: Any = spec and spec.loader
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            module._lazy_call(self.watch)

        loader.exec_module = exec_module
        return spec

    def watch(self) -> None:
        """See every kernel of the process, whichever library launches it, through CUPTI."""
        from torch.autograd.profiler import profile

        self.kernels = None
        profile(use_cpu=False, use_device="cuda", use_kineto=True).__enter__()
        # At exit the last registered goes first: torch and its libraries are still whole then.
        atexit.register(self.gather)

    def gather(self) -> None:
        """Read the kernels off the profiler, in order of their first launch."""
        import torch

        proof = 0
        with contextlib.suppress(RuntimeError):  # a mistake on show may have broken the context
            torch.cuda.synchronize()
            torch.ones(1, device="cuda")  # the last launch; a profiler that sees nothing is blind
            torch.cuda.synchronize()
            proof = 1
        events = torch.autograd._disable_profiler().events()
        names = [
            readable(event.name())
            for event in sorted(events, key=lambda event: event.start_ns())
            if event.device_type() == torch.autograd.DeviceType.CUDA
            and not event.is_user_annotation()
            and not event.name().startswith(("Memcpy", "Memset"))
        ]
        if names:
            self.kernels = list(dict.fromkeys(names[: len(names) - proof]))

    def finish(self) -> None:
        """Leave the record, unless a fork of the process comes by or its kernels went unseen."""
        if os.getpid() != self.process or self.kernels is None:
            return
        for module in list(sys.modules.values()):
            if isinstance(file := getattr(module, "__file__", None), str):
                self.note(file)
        record = {"files": dict(sorted(self.files.items())), "kernels": self.kernels}
        self.path.write_text(json.dumps(record), "utf-8")


def chain() -> None:
    """Run the sitecustomize that this one hides, if the interpreter has one."""
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != HERE]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if folder := os.environ.get("CAMP_SOFTMAX_RECORD"):
    Recorder(Path(folder))
chain()
