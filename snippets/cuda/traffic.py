"""Counts how often the two kernels touch memory, on one row."""

from math import exp

ROW = [3.0, 1, 4, 1, 5, 9, 2, 6]


class Memory(list):
    reads = writes = 0

    def __getitem__(self, j):
        self.reads += 1
        return super().__getitem__(j)

    def __setitem__(self, j, value):
        self.writes += 1
        super().__setitem__(j, value)


def three_pass(x: Memory, y: Memory) -> None:
    m = max(x[j] for j in range(8))
    s = 0.0
    for j in range(8):
        y[j] = e = exp(x[j] - m)
        s += e
    for j in range(8):
        y[j] /= s


def online(x: Memory, y: Memory) -> None:
    m, s = -3.4e38, 0.0
    for j in range(8):
        score = x[j]
        new = max(m, score)
        m, s = new, s * exp(m - new) + exp(score - new)
    for j in range(8):
        y[j] = exp(x[j] - m) / s


for kernel in three_pass, online:
    kernel(x := Memory(ROW), y := Memory([0.0] * 8))
    reads, writes = x.reads + y.reads, x.writes + y.writes
    each = f"{(reads + writes) / 8:.0f} an element"
    print(f"{kernel.__name__:10} {reads} reads, {writes} writes: {each}")
