// Rung 3 for rows so short that they fill no vectors: a block takes many of them at a time, as one piece of memory.
// From the rung below: still one read and one write, but of whole vectors, wherever a row begins. They pass through
// shared memory, where GROUP lanes pick the elements of a row, and where the results take their places. Stops winning
// where rows are longer than a few vectors, of which only the first and the last are not whole.
#include "row.cuh"

constexpr int PASS = THREADS / GROUP;  // rows that are computed at a time
constexpr int ROWS = PASSES * PASS;    // of a block
constexpr int EACH = WORDS * PAIR;     // elements of a row that a lane has at most
constexpr int SURE = EACH - PAIR;      // and at least
using Bits = E::Bits;

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    packed_rows(const Element* x, Element* y, long long rows, long long M,
                long long step) {  // which is M
    __shared__ Vector tile[THREADS * LOADS + 1];
    int thread = threadIdx.x, lane = thread % GROUP;
    long long first = (long long)(blockIdx.x) * ROWS;
    int here = int(min((long long)(ROWS), rows - first));

    // --8<-- [start:tile]
    // All rows of the block as if they were one. In the tile, too, its vectors
    // begin at multiples of 16 bytes.
    Row all(x + first * M, y + first * M, here * M);
    Bits* staged = reinterpret_cast<Bits*>(tile) + (WIDTH - all.head) % WIDTH;
    Vector* whole = reinterpret_cast<Vector*>(staged + all.head);
    Vector loaded[LOADS];
    for (int i = 0; i < LOADS; ++i) {
        int j = thread + i * THREADS;
        loaded[i] = j < all.vectors ? all.in()[j] : NOTHING;
    }
    long long later = first + rows_ahead(M);
    if (thread == 0 && later + ROWS <= rows) {
        Row asked(x + later * M, nullptr, ROWS * M);
        prefetch(asked.in(), asked.vectors * int(sizeof(Vector)));
    }
    int edge = all.edge(thread);
    if (edge != NOWHERE)
        staged[edge] = reinterpret_cast<const Bits*>(all.x)[edge];
    for (int i = 0; i < LOADS; ++i) {
        int j = thread + i * THREADS;
        if (j < all.vectors) whole[j] = loaded[i];
    }
    __syncthreads();
    // --8<-- [end:tile]

    for (int pass = 0; pass < PASSES; ++pass) {
        // --8<-- [start:pick]
        // Neighbours have rows STEP apart, which begin in different banks of
        // shared memory. STEP is odd and ROWS a power of two, so each row has
        // its turn.
        int r = (pass * PASS + thread / GROUP) * STEP % ROWS;
        bool mine = r < here;
        Bits* row = staged + r * int(M);
        // Element k of this lane's is element lane + k * GROUP of the row.
        Words<WORDS> v[1];
        for (int k = 0; k < EACH; ++k) {
            int j = lane + k * GROUP;
            bool inside = mine && (k < SURE || j < int(M));
            u32 bits = inside ? row[j] : Bits(E::MINUS_INFINITY);
            u32& word = v[0].word[k / PAIR];
            word = k % PAIR ? word | bits << 16 : bits;
        }
        // --8<-- [end:pick]
        Items<WORDS> items;
        items.edge = minus_infinity();
        float m = group_max<GROUP>(items.max(v));
        if (OUTPUT == LOGSUMEXP) m = fminf(m, HIGHEST);
        State state = {m, warp_sum<GROUP>(items.exp_and_sum(v, m))};
        if (OUTPUT == LOGSUMEXP) {
            if (lane == 0 && mine)
                y[first + r] = E::narrow(state.m + log_sum(state));
            continue;
        }
        items.finish(m, state);
        Words<WORDS> results = items.packed(0);
        if (!mine) continue;
        for (int k = 0; k < EACH; ++k) {
            int j = lane + k * GROUP;
            if (k < SURE || j < int(M))
                row[j] = Bits(results.word[k / PAIR] >> k % PAIR * 16);
        }
    }
    if (OUTPUT == LOGSUMEXP) return;

    __syncthreads();
    for (int i = 0; i < LOADS; ++i) {
        int j = thread + i * THREADS;
        if (j < all.vectors) all.out()[j] = whole[j];
    }
    if (edge != NOWHERE) reinterpret_cast<Bits*>(all.y)[edge] = staged[edge];
}
