"""Vector clocks on two threads: 0 hands 3 and 1 to 1, through one slot."""

import sys

# --8<-- [start:clocks]
STEPS = {  # for each number of barriers in a round: those of threads 0 and 1
    "1": (
        ["write 3", "barrier", "write 1", "barrier"],
        ["barrier", "read", "barrier", "read"],
    ),
    "2": (
        ["write 3", "barrier", "barrier", "write 1", "barrier", "barrier"],
        ["barrier", "read", "barrier", "barrier", "read", "barrier"],
    ),
}


def barrier(clocks: list[list[int]]) -> list[list[int]]:
    """Each learns what any of them knew; then its own time goes on."""
    known = [max(times) for times in zip(*clocks, strict=True)]
    own = range(len(clocks))
    return [[known[u] + (u == t) for u in own] for t in own]


def before(thread: int, time: int, clock: list[int]) -> bool:
    """Whether the owner of this clock knows of what a thread did then."""
    return time <= clock[thread]


# --8<-- [end:clocks]
# --8<-- [start:run]
def run(steps: tuple[list[str], ...], first: int) -> None:
    """first: the thread that goes on where both may."""
    left, clocks = [list(own) for own in steps], [[1, 0], [0, 1]]
    done, slot, result = [], "", []
    while any(left):
        order = (t for t in (first, 1 - first) if left[t])
        t = next((t for t in order if left[t][0] != "barrier"), None)
        if t is None:  # all wait
            clocks, left = barrier(clocks), [own[1:] for own in left]
            print("  barrier:", *map(tuple, clocks))
            continue
        what, *value = left[t].pop(0).split()
        slot = "".join(value) or slot
        result += slot if what == "read" else ""
        print(f"  thread {t} {tuple(clocks[t])} {what}s {slot}")
        for other, u, time in done:
            if "write" in (what, other) and not before(u, time, clocks[t]):
                print(f"    race: the {other} at time {time} of thread {u}")
        done.append((what, t, clocks[t][t]))
    print("  result:", *result)


if __name__ == "__main__":
    for first in 1, 0:
        print(f"thread {first} first:")
        run(STEPS[sys.argv[1]], first)
# --8<-- [end:run]
