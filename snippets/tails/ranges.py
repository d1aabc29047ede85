"""Which rows and columns each tile of a 17 x 513 matrix covers."""

from math import ceil

N, M, BLOCK_N, BLOCK_M = 17, 513, 16, 256


def ranges(size: int, block: int):
    for k in range(ceil(size / block)):
        first, last = k * block, (k + 1) * block - 1
        real = min(last, size - 1) - first + 1
        print(f"  {k}: {first} to {last}, of which {real} exist")


print("rows, by block")
ranges(N, BLOCK_N)
print("columns, by tile")
ranges(M, BLOCK_M)
print("N // BLOCK_N =", N // BLOCK_N, "block: row 16 would be nobody's")
