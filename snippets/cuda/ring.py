"""A loader and a computing warp share a ring of two stages."""

from collections.abc import Iterator

ROWS, STAGES = "ABCDEF", 2


def wait(barrier: list[int], stage: int, parity: int) -> Iterator:
    while barrier[stage] % 2 == parity:  # the phase of this parity still runs
        yield


def load(data: list, full: list, empty: list, fault: str) -> Iterator:
    stage, parity = 0, 1  # the stages start empty
    for row in ROWS:
        if fault != "no wait":
            yield from wait(empty, stage, parity)
        data[stage] = row
        full[stage] += 1  # the arrival of all bytes ends a phase
        stage, parity = (stage + 1) % STAGES, parity ^ (stage == STAGES - 1)
        yield


def compute(data: list, full: list, empty: list, fault: str) -> Iterator:
    stage, parity = 0, 0
    for _ in ROWS:
        yield from wait(full, stage, parity)
        if fault == "no fence":
            empty[stage] += 1  # the load has been issued, but is on its way
            yield
        row = data[stage]
        if fault != "no fence":
            empty[stage] += 1  # the load has arrived
        print("", row, end="")
        stage, parity = (stage + 1) % STAGES, parity ^ (stage == STAGES - 1)
    print(", done", end="")


for fault in "none", "no wait", "no fence":
    print(f"{fault}:", end="")
    ring = [[None] * STAGES, [0] * STAGES, [0] * STAGES]
    loader, computing = load(*ring, fault), compute(*ring, fault)
    for turn in range(60):  # the loader is fast
        next(computing if turn % 4 == 3 else loader, None)
    print()
