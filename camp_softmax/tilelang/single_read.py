"""Rung 3: a row stays in registers, so it is read once, in TileLang.

From the rung below: the second scan is gone, and exp is computed once. Moves 2 elements per element: read,
write. online.py merges a running state with one tile after the other; here each warp has the state of its
part of a row, and all of them are merged at once, behind the only barrier. Stops winning where a row leaves
room for only one block a multiprocessor (rung 4), and working where it exceeds a block's registers.
"""

from typing import NamedTuple

import tilelang.language as T
import torch
from torch import Tensor

from camp_softmax.tilelang.rows import LOG2E, LOWEST, check, run

VECTOR = 16  # bytes that one instruction loads, from a multiple of 16
WARP = 32
CAPACITY = 65536  # elements of a row: 64 in each of 1024 threads


# --8<-- [start:tile]
class Tile(NamedTuple):
    """How a block holds rows of M elements.

    It has `groups` of `lanes` threads, a warp or less, with `items` vectors of `width` elements a lane. If
    `rows` is `groups`, each group has a row of its own; otherwise a part of the block's only row.
    """

    M: int
    width: int
    lanes: int
    items: int
    groups: int
    rows: int

    @property
    def shape(self) -> tuple[int, int]:
        """Of the fragment: groups, and the elements that each holds."""
        return self.groups, self.lanes * self.items * self.width

    def layout(self) -> T.Fragment:
        """The thread that has element j of group i, and where: the lanes take turns, a vector each."""
        lanes, width = self.lanes, self.width
        turn = lanes * width
        return T.Fragment(
            self.shape,
            forward_fn=lambda i, j: (i * lanes + j % turn // width, j // turn * width + j % width),
        )

    def owner(self, i, row0, part0):
        """The row that group i has, and which part of it."""
        return (row0 + i, part0) if self.rows > 1 else (row0, part0 + i)

    def place(self, i, j, row0, part0):
        """Of element j of group i: the row, the column, and the column where its vector begins.

        Vectors lie between multiples of 16 bytes. A row of which `width` is no divisor begins and ends inside
        one, at any place: columns below 0, and from M on, are other rows'.
        """
        row, part = self.owner(i, row0, part0)
        start = T.cast(row, "int64") * self.M
        head = row % self.width * (self.M % self.width) % self.width  # start % width, in 32 bits
        vector = part * (self.shape[1] // self.width) + j // self.width
        column = (start // self.width + vector) * self.width - start + j % self.width
        return row, column, vector * self.width - head

    # --8<-- [end:tile]


def vectors(M: int, width: int) -> int:
    """How many vectors a row of M elements touches at most.

    Example:
        >>> vectors(8, 4), vectors(9, 4), vectors(10, 4)
        (2, 3, 4)
    """
    return M // width if M % width == 0 else (M - 2) // width + 2


def tile_for(M: int, dtype: str) -> Tile:
    """The tile for rows of M elements.

    Raises:
        ValueError: M exceeds what a block of 1024 threads holds.

    Example:
        >>> tile_for(64, "float32")
        Tile(M=64, width=4, lanes=8, items=2, groups=16, rows=16)
        >>> tile_for(4096, "float32")
        Tile(M=4096, width=4, lanes=32, items=2, groups=16, rows=1)
    """
    if M > CAPACITY:
        raise ValueError(f"single_read: expected rows of up to {CAPACITY} elements, got {M}")
    width = VECTOR // getattr(torch, dtype).itemsize
    count = vectors(M, width)
    if count <= 2 * WARP:
        lanes = next(n for n in (1, 2, 4, 8, 16, 32) if count <= 2 * n)
        groups = 4 * WARP // lanes
        return Tile(M, width, lanes, -(-count // lanes), groups, groups)
    # Two vectors a thread are enough on their way; of 16-bit ones, which are more work, four.
    items = max(2 if width == 4 else 4, -(-count // 1024))
    return Tile(M, width, WARP, items, -(-count // (items * WARP)), 1)


# --8<-- [start:load]
@T.macro
def load(A, x, tile, row0, part0):
    """x = the rows from row0, the parts from part0; -inf where there is nothing."""
    N, M = A.shape
    for i, j in T.Parallel(*x.shape):
        row, column, first = tile.place(i, j, row0, part0)
        if row < N and first >= 0 and first <= M - tile.width:
            x[i, j] = A[row, column]
        else:
            x[i, j] = -T.infinity(x.dtype)
    if tile.M % tile.width:  # the ends of a row, element by element
        for i, j in T.Parallel(*x.shape):
            row, column, first = tile.place(i, j, row0, part0)
            here = first + j % tile.width  # `column` again, in 32 bits
            if row < N and (first < 0 or first > M - tile.width) and here >= 0 and here < M:
                x[i, j] = A[row, column]
    # --8<-- [end:load]


@T.macro
def store(x, B, tile, row0, part0):
    """What `load` read, back to the same places of B."""
    N, M = B.shape
    for i, j in T.Parallel(*x.shape):
        row, column, first = tile.place(i, j, row0, part0)
        if row < N and first >= 0 and first <= M - tile.width:
            B[row, column] = x[i, j]
    if tile.M % tile.width:
        for i, j in T.Parallel(*x.shape):
            row, column, first = tile.place(i, j, row0, part0)
            here = first + j % tile.width  # `column` again, in 32 bits
            if row < N and (first < 0 or first > M - tile.width) and here >= 0 and here < M:
                B[row, column] = x[i, j]


# --8<-- [start:state]
@T.macro
def group_state(x, e, m, s, cap):
    """e = exp(x - m), and each group's state (m, s): shuffles inside a warp, no barrier."""
    for i, j in T.Parallel(*x.shape):
        e[i, j] = x[i, j]
    T.reduce_max(e, m, dim=1)
    for i in T.Parallel(*m.shape):
        m[i] = T.min(T.max(m[i], LOWEST), cap)
    for i, j in T.Parallel(*x.shape):
        e[i, j] = T.exp2((e[i, j] - m[i]) * LOG2E)
    T.reduce_sum(e, s, dim=1)
    # --8<-- [end:state]


# --8<-- [start:merge]
@T.macro
def merge_states(states, m, s):
    """(m, s) of each warp = all the states in shared memory, merged: each warp does it for itself."""
    count, warps = states.shape[0], m.shape[0]
    columns = T.ceildiv(count, WARP) * WARP
    lane_m = T.alloc_fragment((warps, columns), "float32")
    lane_s = T.alloc_fragment((warps, columns), "float32")
    T.annotate_layout({lane_m: state_layout(warps, columns), lane_s: state_layout(warps, columns)})
    for i, j in T.Parallel(warps, columns):
        if j < count:
            lane_m[i, j] = states[j, 0]
            lane_s[i, j] = states[j, 1]
        else:
            lane_m[i, j] = LOWEST
            lane_s[i, j] = 0
    T.reduce_max(lane_m, m, dim=1)
    for i, j in T.Parallel(warps, columns):
        lane_s[i, j] = lane_s[i, j] * T.exp2((lane_m[i, j] - m[i]) * LOG2E)
    T.reduce_sum(lane_s, s, dim=1)
    # --8<-- [end:merge]


def state_layout(warps: int, columns: int) -> T.Fragment:
    """State j of warp i: the lanes take turns."""
    return T.Fragment((warps, columns), forward_fn=lambda i, j: (i * WARP + j % WARP, j // WARP))


@T.macro
def write(x, e, m, row_m, row_s, B, operator, tile, row0, part0):
    """The result, from x, e = exp(x - m) and the row's state, to where x was read from."""
    N = B.shape[0]
    factor = T.alloc_fragment(m.shape, "float32")
    if operator == "softmax":
        # exp(m - row_m) / row_s may be so small that bits are lost: it is carried times 2^64.
        for i in T.Parallel(*m.shape):
            factor[i] = T.exp2((m[i] - row_m[i]) * LOG2E + 64) / row_s[i]
        for i, j in T.Parallel(*x.shape):
            x[i, j] = e[i, j] * factor[i] * 2.0**-64
        store(x, B, tile, row0, part0)
    elif operator == "log_softmax":
        for i in T.Parallel(*m.shape):
            factor[i] = T.log(row_s[i])
        for i, j in T.Parallel(*x.shape):
            x[i, j] = T.cast(x[i, j], "float32") - row_m[i] - factor[i]
        store(x, B, tile, row0, part0)
    else:
        for i in T.Parallel(*m.shape):
            row, part = tile.owner(i, row0, part0)
            if row < N and part == 0:
                B[row] = row_m[i] + T.log(row_s[i])


# --8<-- [start:kernel]
def kernel(M: int, dtype: str, operator: str, tile: Tile | None = None):
    """B = operator(A), row by row: N rows, known at launch, of M columns."""
    tile = tile or tile_for(M, dtype)
    N = T.dynamic("N")
    result = (N,) if operator == "logsumexp" else (N, M)
    cap = T.max_value("float32") if operator == "logsumexp" else T.infinity("float32")

    @T.prim_func
    def single_read(A: T.Tensor((N, M), dtype), B: T.Tensor(result, dtype)):
        with T.Kernel(T.ceildiv(N, tile.rows), threads=tile.groups * tile.lanes) as block:
            x = T.alloc_fragment(tile.shape, dtype)
            e = T.alloc_fragment(tile.shape, "float32")
            T.annotate_layout({x: tile.layout(), e: tile.layout()})
            m = T.alloc_fragment((tile.groups,), "float32")
            s = T.alloc_fragment((tile.groups,), "float32")
            row_m = T.alloc_fragment((tile.groups,), "float32")
            row_s = T.alloc_fragment((tile.groups,), "float32")
            row0 = block * tile.rows
            load(A, x, tile, row0, 0)
            group_state(x, e, m, s, cap)
            if tile.rows == tile.groups:
                T.copy(m, row_m)
                T.copy(s, row_s)
            else:
                states = T.alloc_shared((tile.groups, 2), "float32")
                for i in T.Parallel(tile.groups):
                    states[i, 0] = m[i]
                    states[i, 1] = s[i]
                merge_states(states, row_m, row_s)
            write(x, e, m, row_m, row_s, B, operator, tile, row0, 0)

    return single_read
    # --8<-- [end:kernel]


def softmax(rows: Tensor) -> Tensor:
    """softmax of each row, on the device where the rows are.

    Args:
        rows: (N, M), N at least 1, M from 1 to CAPACITY, contiguous and 16-byte aligned; float32, float16 or
            bfloat16. The state is float32 whatever the dtype. No gradient flows through.

    Returns:
        tensor of the shape and dtype of `rows`.

    Raises:
        TypeError, ValueError: `rows` is not such a tensor; nothing is launched.

    Example:
        >>> softmax(torch.tensor([[0.0, 1.0, 2.0]]))
        tensor([[0.0900, 0.2447, 0.6652]])
    """
    return _run("softmax", rows)


def log_softmax(rows: Tensor) -> Tensor:
    """log(softmax(rows)) as x - m - log(s), which takes no logarithm of a 0; otherwise as `softmax`.

    Example:
        >>> log_softmax(torch.tensor([[0.0, 1000.0]]))
        tensor([[-1000.,     0.]])
    """
    return _run("log_softmax", rows)


def logsumexp(rows: Tensor) -> Tensor:
    """log sum_j exp(x_j) of each row, (N, M) to (N,); otherwise as `softmax`.

    Example:
        >>> logsumexp(torch.tensor([[0.0, 0.0]]))
        tensor([0.6931])
    """
    return _run("logsumexp", rows)


def _run(operator: str, rows: Tensor) -> Tensor:
    check(rows)
    return run(kernel, rows, operator)
