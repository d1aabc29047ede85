"""Compiles single_read as the plan has it; counts what is in it."""

import re

import torch
from cuda.bindings import nvrtc

from camp_softmax.cuda import plan, runtime


def compiled(made: plan.Plan) -> tuple[str, str]:
    """PTX, and what the assembler says; without a GPU."""
    path = runtime.HERE / f"{made.rung}.cuh"
    options = ["--gpu-architecture=sm_90", "--ptxas-options=-v"]
    options += [f"--define-macro={a}={b}" for a, b in made.constants]
    options = [o.encode() for o in (*options, f"-I{runtime.HERE}")]
    text = path.read_bytes()
    _, program = nvrtc.nvrtcCreateProgram(text, b"", 0, [], [])
    nvrtc.nvrtcCompileProgram(program, len(options), options)
    _, size = nvrtc.nvrtcGetPTXSize(program)
    nvrtc.nvrtcGetPTX(program, ptx := bytearray(size))
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    nvrtc.nvrtcGetProgramLog(program, log := bytearray(size))
    return ptx.decode(), log.decode()


FLOAT, BFLOAT = torch.float32, torch.bfloat16
print("       16-byte  single           of a warp")
print("         loads   loads barriers redux shfl registers")
for dtype, M in (FLOAT, 513), (FLOAT, 6000), (FLOAT, 6001), (BFLOAT, 22000):
    aligned = M * dtype.itemsize % 16 == 0
    ptx, log = compiled(plan.single_read(M, dtype, "SOFTMAX", aligned))
    loads = re.findall(r"ld\.global\S*", ptx)
    vectors = sum(".v4." in load for load in loads)
    registers = -(-int(re.search(r"Used (\d+)", log)[1]) // 8) * 8
    inside = [ptx.count(op) for op in ("bar.sync", "redux.sync", "shfl.sync")]
    columns = M, vectors, len(loads) - vectors, *inside, registers
    print("{:6} {:7} {:7} {:8} {:5} {:4} {:9}".format(*columns))
