"""Bytes that attention moves: with the N x N matrix stored, and without."""

HEADS, D, BYTES = 16, 128, 2  # 16-bit elements
TILE = 128  # queries a block


def moved(N: int) -> tuple[int, int, int]:
    """Stored, fused, and fused with no cache, in bytes; N queries and keys."""
    tensor, matrix = HEADS * N * D * BYTES, HEADS * N * N * BYTES
    fused = 4 * tensor  # q, k, v and the output
    stored = fused + 4 * matrix  # scores and weights, each written and read
    no_cache = 2 * tensor + -(-N // TILE) * 2 * tensor  # k, v for each tile
    return stored, fused, no_cache


print("MiB, 16 heads, D = 128")
print("     N   matrix   stored   fused   stored / fused   fused, no cache")
for N in 1024, 4096, 16_384:
    matrix = HEADS * N * N * BYTES >> 20
    stored, fused, no_cache = (size >> 20 for size in moved(N))
    print(
        f"{N:6,} {matrix:8,} {stored:8,} {fused:7,}",
        f"{stored // fused:16} {no_cache:17,}",
    )
