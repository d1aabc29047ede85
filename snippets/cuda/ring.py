"""A loader and a computing warp share a ring of two stages."""

from collections.abc import Iterator

ROWS, STAGES = "ABCDEF", 2


def wait(barrier: list[int], stage: int, parity: int) -> Iterator:
    while barrier[stage] % 2 == parity:  # that phase still runs
        yield


def load(data: list, full: list, empty: list, fault: str) -> Iterator:
    stage, parity = 0, 1  # the stages start empty
    for row in ROWS:
        if fault != "no wait":
            yield from wait(empty, stage, parity)
        data[stage], full[stage] = row, full[stage] + 1  # ends a phase
        stage, parity = (stage + 1) % STAGES, parity ^ (stage == STAGES - 1)
        yield


def compute(data: list, full: list, empty: list, fault: str) -> Iterator:
    stage, parity = 0, 0
    for _ in ROWS:
        yield from wait(full, stage, parity)
        if fault == "no fence":
            empty[stage] += 1  # the load is still on its way
            yield
        row = data[stage]
        print("", row, end="")
        if fault != "no fence":
            empty[stage] += 1
        stage, parity = (stage + 1) % STAGES, parity ^ (stage == STAGES - 1)
    print(", done", end="")


for fault in "none", "no wait", "no fence":
    print(f"{fault}:", end="")
    ring = [[0] * STAGES for _ in range(3)]  # data, full, empty
    sides = [load(*ring, fault)] * 3 + [compute(*ring, fault)]  # load is fast
    for turn in range(60):
        next(sides[turn % 4], None)
    print()
