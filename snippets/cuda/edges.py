"""Where the rows of a matrix start between two multiples of 16 bytes."""


def parts(row: int, M: int, width: int) -> tuple[int, int, int]:
    """Elements before the vectors, vectors, elements behind them."""
    head = min(-row * M % width, M)
    vectors, tail = divmod(M - head, width)
    return head, vectors, tail


SHAPES = ("float32", 4, 13), ("bfloat16", 8, 21), ("float32", 4, 16)
for dtype, width, M in SHAPES:
    print(f"{dtype}, {M} columns: {width} elements a vector")
    for row in range(3):
        head, vectors, tail = parts(row, M, width)
        drawn = "." * head + f"[{'-' * (width - 2)}]" * vectors + "." * tail
        print(f"  row {row}: {head} + {width} x {vectors} + {tail}  {drawn}")
