// Rung 3: the row stays in registers, so it is read once.
// From the rung below: the second scan is gone, 2 elements moved per element (read, write). GROUP threads share a
// row: up to a warp for short rows, else the whole block, two vectors a thread as long as a block is large enough.
// Blocks run in the order of their rows, and that order matters: it keeps the DRAM pages in use few. Each asks for the
// rows of a later block, so that memory is busy while blocks compute. Stops winning where a row leaves room for only
// one block a multiprocessor.
#include "row.cuh"

constexpr bool IN_WARP = GROUP <= 32;
constexpr int ROWS = IN_WARP ? THREADS / GROUP : 1;  // of a block
constexpr int WARPS = THREADS / 32;
constexpr int SHUFFLED = IN_WARP ? GROUP : 32;  // lanes that share a row

// --8<-- [start:block]
// The state of the block, from those of its warps: one barrier in all.
__device__ State block_state(State own) {
    __shared__ State states[WARPS];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (lane == 0) states[warp] = own;
    __syncthreads();
    State other = lane < WARPS ? states[lane] : State{LOWEST, 0};
    float m = warp_max(other.m);
    return {m, warp_sum(other.s * exp2_flushed((other.m - m) * LOG2E))};
}
// --8<-- [end:block]

// --8<-- [start:prefetch]
// Asks for the rows of a later block. Of rows that a warp has, only where they
// lie one behind the other: a request for each would take longer than it saves.
__device__ void ask_ahead(const Element* x, long long rows, long long M,
                          long long step) {
    constexpr bool PAYS = !IN_WARP || (ALIGNED && ITEMS > 1);
    if (!PAYS || threadIdx.x != 0) return;
    long long first = (long long)(blockIdx.x) * ROWS + rows_ahead(M);
    if (first + ROWS > rows || (ROWS > 1 && step != M)) return;
    Row row(x + first * step, nullptr, M);
    prefetch(row.in(), ROWS * row.vectors * int(sizeof(Vector)));
}
// --8<-- [end:prefetch]

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    single_read(const Element* x, Element* y, long long rows, long long M, long long step) {
    int lane = IN_WARP ? threadIdx.x % GROUP : threadIdx.x;
    constexpr int LANES = IN_WARP ? GROUP : THREADS;
    long long index = IN_WARP ? (long long)(blockIdx.x) * ROWS + threadIdx.x / GROUP : blockIdx.x;
    bool here = index < rows;  // a warp's groups stay together for the shuffles, also those beyond the last row
    if (!here) index = 0;
    Row row(x + index * step, y + index * M, M);

    // --8<-- [start:load]
    Vector v[ITEMS];
    Items<> items;
    for (int i = 0; i < ITEMS; ++i) {
        int j = lane + i * LANES;
        v[i] = here && j < row.vectors ? row.in()[j] : NOTHING;
    }
    ask_ahead(x, rows, M, step);
    int edge = here ? row.edge(lane) : NOWHERE;
    items.edge = edge == NOWHERE ? minus_infinity() : E::widen(row.x[edge]);
    // --8<-- [end:load]

    // --8<-- [start:reduce]
    float m = group_max<SHUFFLED>(items.max(v));
    // Where x is +inf, x - m then is too, and not inf - inf.
    if (OUTPUT == LOGSUMEXP) m = fminf(m, HIGHEST);
    State state = {m, warp_sum<SHUFFLED>(items.exp_and_sum(v, m))};
    if (!IN_WARP) state = block_state(state);
    if (!here) return;
    // --8<-- [end:reduce]

    if (OUTPUT == LOGSUMEXP) {
        if (lane == 0) y[index] = E::narrow(state.m + log_sum(state));
        return;
    }
    // --8<-- [start:write]
    items.finish(m, state);
    for (int i = 0; i < ITEMS; ++i) {
        int j = lane + i * LANES;
        if (j < row.vectors) row.out()[j] = items.packed(i);
    }
    if (edge != NOWHERE) row.y[edge] = E::narrow(items.edge);
    // --8<-- [end:write]
}
