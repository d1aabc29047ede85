"""What the CPU does not compile, of what nvcc does."""

import tempfile
from pathlib import Path

from camp_softmax.cuda import host

KERNEL = 'extern "C" __global__ void k(float* x) {{\n    {}\n}}\n'
SOURCES = {
    "inline PTX": KERNEL.format('asm("bar.sync 0;");'),
    "cooperative_groups.h": "#include <cooperative_groups.h>\n"
    + KERNEL.format("cooperative_groups::this_thread_block().sync();"),
    "cuda_fp16.h": "#include <cuda_fp16.h>\n"
    + KERNEL.format("x[0] = __half2float(__float2half(x[0]));"),
}

for what, source in SOURCES.items():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "k.cuh"
        path.write_text(source)
        try:
            host.compile(path, "k")
            print(f"{what}: compiled")
        except RuntimeError as error:
            print(f"{what}:", str(error).splitlines()[0].rstrip(":"))
