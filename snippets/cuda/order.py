"""Which rows are at work: taken from one counter, or dealt out round robin."""

import heapq

ROWS, CLUSTERS = 80, 4
TIME = [20, 21, 22, 24]  # of a row, in each cluster: never quite the same


class Counter:
    value = 0

    def take(self) -> int:
        """As take_row: whoever takes the last value leaves 0 behind."""
        taken = self.value
        self.value = 0 if taken == ROWS - 1 else taken + 1
        return taken + CLUSTERS


def run(next_row) -> None:
    """next_row: the row that a cluster takes after one."""
    starts = [(0, cluster, cluster) for cluster in range(CLUSTERS)]
    at_work, show = dict(enumerate(range(CLUSTERS))), [10, 100, 200, 300, 400]
    while starts:
        now, cluster, row = heapq.heappop(starts)
        while show and now > show[0]:
            rows = sorted(at_work.values())
            apart = f"{rows[-1] - rows[0]} apart"
            numbers = " ".join(f"{row:2}" for row in rows)
            print(f"  at {show.pop(0):3}: {numbers}  {apart}")
        if row < ROWS:
            at_work[cluster] = row
            later = now + TIME[cluster]
            heapq.heappush(starts, (later, cluster, next_row(row)))
    print(f"  the last one ends at {now}")


counter = Counter()
print("from one counter")
run(lambda row: counter.take())
print(f"  left in the counter: {counter.value}")
print("round robin")
run(lambda row: row + CLUSTERS)
