"""How long the machine code of an exponential is, in instructions."""

import struct

from cuda.bindings import nvrtc

KERNEL = 'extern "C" __global__ void f(float* y, float x) { *y = EXPRESSION; }'


def length(expression: str) -> int:
    source = KERNEL.replace("EXPRESSION", expression).encode()
    _, program = nvrtc.nvrtcCreateProgram(source, b"", 0, [], [])
    nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=sm_90"])
    _, size = nvrtc.nvrtcGetCUBINSize(program)
    elf = bytearray(size)
    nvrtc.nvrtcGetCUBIN(program, elf)
    code = text_section(elf, b".text.f")
    words = [bytes(code[i : i + 16]) for i in range(0, len(code), 16)]
    return len(words) - words.count(words[-1])  # NOPs fill up the end


def text_section(elf: bytes, wanted: bytes) -> bytes:
    """A section of an ELF file, by its name."""
    (table,) = struct.unpack_from("<Q", elf, 40)
    count, names = struct.unpack_from("<HH", elf, 60)
    sections = [
        struct.unpack_from("<IIQQQQ", elf, table + 64 * i)
        for i in range(count)
    ]
    for name, _, _, _, start, size in sections:
        if elf.startswith(wanted + b"\0", sections[names][4] + name):
            return elf[start : start + size]
    raise KeyError(wanted)


rest = length("x")  # load the address, store, exit
for expression in "exp2f(x)", "__expf(x)", "exp2f(x * 1.4426950f)":
    print(f"{expression}: {length(expression) - rest}")
