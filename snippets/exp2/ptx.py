"""The arithmetic that NVRTC makes of an exponential, in PTX."""

from cuda.bindings import nvrtc

KERNEL = 'extern "C" __global__ void f(float* y, float x) { *y = EXPRESSION; }'


def arithmetic(expression: str) -> list[str]:
    source = KERNEL.replace("EXPRESSION", expression).encode()
    _, program = nvrtc.nvrtcCreateProgram(source, b"", 0, [], [])
    # sm_90 is an H100 or H200; compiling needs none.
    nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=sm_90"])
    _, size = nvrtc.nvrtcGetPTXSize(program)
    ptx = bytearray(size)
    nvrtc.nvrtcGetPTX(program, ptx)
    lines = ptx.decode().strip("\0").splitlines()
    names = [line.split()[0] for line in lines if line]
    first = names.index("ld.param.u64")  # the body: loads, arithmetic, a store
    rest = ("ld.", "st.", "mov", "cvta", "ret", "}")
    return [name for name in names[first:] if not name.startswith(rest)]


for expression in "exp2f(x)", "__expf(x)", "exp2f(x * 1.4426950f)", "expf(x)":
    names = arithmetic(expression)
    print(f"{expression}: {len(names)}")
    for name in names:
        print(">" if name.startswith("ex2") else " ", name)
