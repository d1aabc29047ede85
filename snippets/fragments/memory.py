"""One tile of exponentials in TileLang, then in CUDA, then as instructions."""

import tilelang
import tilelang.language as T
from cuda.bindings import nvrtc
from tvm.target import Target


# --8<-- [start:kernel]
@T.prim_func
def exponentials(
    A: T.Tensor((16, 256), "float32"), B: T.Tensor((16, 256), "float32")
):
    with T.Kernel(1, threads=256):
        tile = T.alloc_fragment((16, 256), "float32")
        T.copy(A, tile)
        for i, j in T.Parallel(16, 256):
            tile[i, j] = T.exp2(tile[i, j])
        T.copy(tile, B)
        # --8<-- [end:kernel]


target = Target({"kind": "cuda", "arch": "sm_90"})  # lowering needs no GPU
with target:
    cuda = tilelang.lower(exponentials, target=target).kernel_source
cuda = cuda[cuda.rindex('extern "C"') :].strip()
for line in cuda.splitlines()[1:-1]:
    print(">" if "tile" in line else " ", line)

_, program = nvrtc.nvrtcCreateProgram(cuda.encode(), b"", 0, [], [])
nvrtc.nvrtcCompileProgram(program, 1, [b"--gpu-architecture=sm_90"])
_, size = nvrtc.nvrtcGetPTXSize(program)
ptx = bytearray(size)
nvrtc.nvrtcGetPTX(program, ptx)
names = [line.split()[0] for line in ptx.decode().splitlines() if line]
for prefix in "ld.global", "ex2", "st.global", ".local":
    print(f"{prefix}: {sum(name.startswith(prefix) for name in names)}")
