"""The block reduction, level by level: eight threads, two operations."""

from operator import add

ROW = [3, 1, 4, 1, 5, 9, 2, 6]


def tree(values: list[int], op) -> None:
    scratch = list(values)
    print(*scratch)
    n = len(scratch) // 2
    while n > 0:
        for t in range(n):  # threads 0 to n - 1; on the GPU, all at once
            scratch[t] = op(scratch[t], scratch[t + n])
        print(*scratch[:n], f"  n = {n}")
        n //= 2


for name, op in ("maximum", max), ("sum", add):
    print(name)
    tree(ROW, op)
