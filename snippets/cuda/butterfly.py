"""A butterfly: lanes of a warp swap what they have, and all end up equal."""

ROW = [3, 1, 4, 1, 5, 9, 2, 6]  # one element for each of 8 lanes


def shuffle_xor(values: list[int], lanes: int) -> list[int]:
    """What each lane gets: the value of the lane whose number differs there."""
    return [values[t ^ lanes] for t in range(len(values))]


for group in 8, 4:
    print(f"groups of {group}")
    values, lanes = ROW, group // 2
    print(*values)
    while lanes > 0:
        others = shuffle_xor(values, lanes)
        values = [max(a, b) for a, b in zip(values, others, strict=True)]
        print(*values, f"  lanes = {lanes}")
        lanes //= 2
