"""Which elements of a tile a thread holds, read off the generated CUDA."""

import re

import tilelang
from tvm.target import Target

from camp_softmax.tilelang.online import softmax_kernel

target = Target({"kind": "cuda", "arch": "sm_90"})  # lowering needs no GPU
with target:
    program = softmax_kernel(513, "float32")
    cuda = tilelang.lower(program, target=target).kernel_source
# Before tile[i] is loaded, an `if` asks for its row and column.
row, column = re.search(r"if \(\((.*) < N\) && \((.*) < 513\)\)", cuda).groups()
print("row    =", row)
print("column =", column)

python = f"{row}, {column}".replace("(int)", "")
for name in "blockIdx", "threadIdx":
    python = python.replace(f"{name}.x", name)


def place(thread: int, i: int) -> tuple[int, int]:
    """Where tile[i] of a thread lies, in the first tile of the first block."""
    return eval(python, {"blockIdx": 0, "threadIdx": thread, "k": 0, "i": i})


for thread in 0, 1, 63, 64, 255:
    places = [place(thread, i) for i in range(16)]
    rows = sorted({row for row, _ in places})
    columns = sorted({column for _, column in places})
    print(f"thread {thread}: rows {rows}, columns {columns}")
held = {place(thread, i) for thread in range(256) for i in range(16)}
print(f"all threads: {len(held)} elements")
