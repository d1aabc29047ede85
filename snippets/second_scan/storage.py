"""Bytes that a block would need to keep all the tiles of its rows."""

KIB = 1024
BLOCK_N, BLOCK_M = 16, 256
REGISTERS = 65_536 * 4 // KIB  # the most that one block can have on NVIDIA GPUs

tile = BLOCK_N * BLOCK_M * 4 // KIB  # float32
print(f"one tile of {BLOCK_N} x {BLOCK_M}: {tile} KiB")
print(f"all registers of a block: {REGISTERS} KiB")
print("row length   tiles   kept for 16 rows   for 1 row")
for M in 513, 4096, 65_536, 262_144:
    tiles = -(-M // BLOCK_M)
    row = tiles * BLOCK_M * 4 / KIB
    print(f"{M:>10,}   {tiles:>5}   {tiles * tile:>12,} KiB   {row:>5,.0f} KiB")
