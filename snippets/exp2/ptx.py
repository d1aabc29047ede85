"""The arithmetic that NVRTC makes of an exponential, in PTX."""

from cuda.bindings import nvrtc

KERNEL = 'extern "C" __global__ void f(float* y, float x) { *y = EXPRESSION; }'


def arithmetic(expression: str) -> list[str]:
    source = KERNEL.replace("EXPRESSION", expression).encode()
    _, program = nvrtc.nvrtcCreateProgram(source, b"", 0, [], [])
    # Compiling for an H100 or H200 needs none.
    nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=sm_90"])
    _, size = nvrtc.nvrtcGetPTXSize(program)
    ptx = bytearray(size)
    nvrtc.nvrtcGetPTX(program, ptx)
    names = [line.split()[0] for line in ptx.decode().splitlines() if line]
    body = names[names.index("ld.param.f32") + 1 : names.index("st.global.f32")]
    return [name for name in body if not name.startswith(("mov", "cvta"))]


for expression in "exp2f(x)", "__expf(x)", "exp2f(x * 1.4426950f)", "expf(x)":
    names = arithmetic(expression)
    print(f"{expression}: {len(names)}")
    for name in names:
        print(">" if name.startswith("ex2") else " ", name)
