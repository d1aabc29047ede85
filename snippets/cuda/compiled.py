"""Compiles a .cuh file without a GPU; counts barriers and shared memory."""

import re
import sys
from pathlib import Path

from cuda.bindings import nvrtc

from camp_softmax.cuda import runtime

path = Path(sys.argv[1])
runtime.compile(path, "sm_90")  # if it does not compile, shows the line
include = f"--include-path={runtime.HERE}"
options = ["--gpu-architecture=sm_90", f"--define-macro=BLOCK={runtime.BLOCK}"]
options = [option.encode() for option in (*options, include)]
_, program = nvrtc.nvrtcCreateProgram(path.read_bytes(), b"", 0, [], [])
nvrtc.nvrtcCompileProgram(program, len(options), options)
_, size = nvrtc.nvrtcGetPTXSize(program)
ptx = bytearray(size)
nvrtc.nvrtcGetPTX(program, ptx)
for kernel in ptx.decode().split(".entry ")[1:]:
    name = kernel.partition("(")[0]
    (shared,) = re.findall(rf"\.shared .*{name}.*\[(\d+)\]", ptx.decode())
    print(f"{name}: {kernel.count('bar.sync')} barriers, {shared} bytes shared")
