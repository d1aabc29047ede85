// Rung 4: a row over CLUSTER blocks of one cluster, which tell each other their states through distributed shared
// memory.
// From the rung below: a row no longer has to fit one multiprocessor, still 2 elements moved per element. The
// blocks are persistent: while a row is computed in registers, the next one is already on its way into a ring of
// shared memory. Stops winning, and working, where a row exceeds what the registers of a cluster hold.
//
// Each block has THREADS that compute and one more warp that loads:
//
//   loader     takes the number of a row that nobody has taken | waits for a free stage | starts its bulk copy, and
//              asks for what a later row has there
//   computing  waits for a full stage | registers, frees the stage | (m, s) to every block | waits for all | writes
//
// Rows are taken in order from one counter. Dealt out round robin instead, the blocks drift apart, and the window of
// DRAM pages in use widens: `python -m camp_softmax.bench --variants` says what that costs.
#include "row.cuh"

constexpr int WARPS = THREADS / 32;
constexpr int STAGES_A_PART = ITEMS / STAGE;  // a stage holds STAGE vectors for each thread
constexpr int STAGE_VECTORS = THREADS * STAGE;
constexpr int KNOWN = STAGES / STAGES_A_PART + 2;  // rows that may be known and not yet computed
constexpr int STATES = CLUSTER * WARPS;            // a row's states, one from each warp of the cluster

// --8<-- [start:shared]
struct Shared {
    // Of this row and of the next, which a faster block may already send.
    float2 states[2][STATES];
    u64 full[STAGES], empty[STAGES], known[KNOWN], told[2];
    int index[KNOWN];
};

// --8<-- [end:shared]

// --8<-- [start:part]
// What of a row is this block's: a piece for each stage. The blocks' pieces
// alternate, so what the cluster loads at a time lies together.
struct Part {
    const Vector* in;
    Vector* out;
    int vectors, rank, piece;

    __device__ Part(const Row& row, int rank)
        : in(row.in()), out(row.out()), vectors(row.vectors), rank(rank) {
        constexpr int PIECES = CLUSTER * STAGES_A_PART;
        // Whole lines of 128 bytes.
        piece = ((vectors + PIECES - 1) / PIECES + 7) / 8 * 8;
    }
    __device__ int start(int p) const { return (p * CLUSTER + rank) * piece; }
    __device__ int size(int p) const {
        return max(0, min(piece, vectors - start(p)));
    }
};
// --8<-- [end:part]

__device__ int next_stage(int stage, u32& parity) {
    if (++stage < STAGES) return stage;
    parity ^= 1;
    return 0;
}

// --8<-- [start:take]
// The row after those that anyone has taken. The first rows are the clusters'
// own numbers; the counter gives out the rest. It has as many values as there
// are rows: whoever takes the last leaves it at 0 for the next launch.
__device__ int take_row(int* counter, int rows) {
    int taken = atomicAdd(counter, 1);
    if (taken == rows - 1) *counter = 0;
    return taken + int(gridDim.x) / CLUSTER;
}
// --8<-- [end:take]

// The row that rank 0 took for this turn, once it has told.
__device__ int known_index(Shared& shared, int& slot, u32& parity) {
    barrier_wait_for_cluster(&shared.known[slot], parity);
    int index = *const_cast<volatile int*>(&shared.index[slot]);
    if (++slot == KNOWN) slot = 0, parity ^= 1;
    return index;
}

__device__ void load_rows(Shared& shared, Vector* ring, const Element* x, int rows, long long M,
                          long long step, int* counter, int rank) {
    int stage = 0, slot = 0;
    u32 empty_parity = 1, known_parity = 0;  // the stages start empty
    int index = rank == 0 ? take_row(counter, rows) : 0;
    for (;;) {
        barrier_arrive_expecting(&shared.known[slot], sizeof(int));
        if (rank == 0)
            for (int other = 0; other < CLUSTER; ++other)
                remote_store(&shared.index[slot], index, &shared.known[slot], other);
        index = known_index(shared, slot, known_parity);
        if (index >= rows) return;

        // --8<-- [start:produce]
        Part part(Row(x + index * step, nullptr, M), rank);
        long long later = index + rows_ahead(M);
        Part asked(Row(x + later * step, nullptr, M), rank);
        // Its latency passes while the copies start.
        if (rank == 0) index = take_row(counter, rows);
        for (int p = 0; p < STAGES_A_PART; ++p) {
            barrier_wait(&shared.empty[stage], empty_parity);
            int bytes = part.size(p) * int(sizeof(Vector));
            barrier_arrive_expecting(&shared.full[stage], bytes);
            if (bytes > 0)
                bulk_load(ring + stage * STAGE_VECTORS,
                          part.in + part.start(p), bytes,
                          &shared.full[stage]);
            if (later < rows && asked.size(p) > 0)
                prefetch(asked.in + asked.start(p),
                         asked.size(p) * int(sizeof(Vector)));
            stage = next_stage(stage, empty_parity);
        }
        // --8<-- [end:produce]
    }
}

// --8<-- [start:exchange]
// Sends this warp's state to every block and waits for all states of the row.
__device__ State cluster_state(Shared& shared, State own, int turn, int rank) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float2* states = shared.states[turn % 2];
    u64* told = &shared.told[turn % 2];
    if (lane < CLUSTER)
        remote_store(&states[rank * WARPS + warp], {own.m, own.s}, told, lane);
    barrier_wait_for_cluster(told, turn / 2 % 2);

    constexpr int EACH = (STATES + 31) / 32;
    float2 other[EACH];
    float m = LOWEST, s = 0;
    for (int i = 0; i < EACH; ++i) {
        int j = lane + i * 32;
        other[i] = j < STATES ? states[j] : float2{LOWEST, 0};
        m = fmaxf(m, other[i].x);
    }
    m = warp_max(m);
    for (int i = 0; i < EACH; ++i)
        s += other[i].y * exp2_flushed((other[i].x - m) * LOG2E);
    return {m, warp_sum(s)};
}
// --8<-- [end:exchange]

__device__ void compute_rows(Shared& shared, const Vector* ring, const Element* x, Element* y, int rows,
                             long long M, long long step, int rank) {
    int thread = threadIdx.x, index = blockIdx.x / CLUSTER;
    int lane = rank == 0 ? thread : 2 * WIDTH;  // rank 0 has what an unaligned row has outside its vectors
    int stage = 0, slot = 0;
    u32 full_parity = 0, known_parity = 0;
    Vector v[ITEMS];
    Items<> items;

    // The first row comes straight from global memory: the ring is not there yet.
    Row row(x + index * step, y + index * M, M);
    Part part(row, rank);
    for (int p = 0; p < STAGES_A_PART; ++p)
        for (int i = 0; i < STAGE; ++i) {
            int j = thread + i * THREADS;
            v[p * STAGE + i] = j < part.size(p) ? part.in[part.start(p) + j] : NOTHING;
        }
    int edge = row.edge(lane);
    items.edge = edge == NOWHERE ? minus_infinity() : E::widen(row.x[edge]);
    cluster_arrive();

    for (int turn = 0;; ++turn) {
        float m = warp_max(items.max(v));
        if (OUTPUT == LOGSUMEXP) m = fminf(m, HIGHEST);
        State own = {m, warp_sum(items.exp_and_sum(v, m))};
        if (turn == 0) cluster_wait();  // the barriers are ready, here and in the other blocks
        if (thread == 0) barrier_arrive_expecting(&shared.told[turn % 2], sizeof(shared.states[0]));
        State state = cluster_state(shared, own, turn, rank);

        if (OUTPUT == LOGSUMEXP) {
            if (rank == 0 && thread == 0) y[index] = E::narrow(state.m + log_sum(state));
        } else {
            items.finish(m, state);
            for (int p = 0; p < STAGES_A_PART; ++p)
                for (int i = 0; i < STAGE; ++i) {
                    int j = thread + i * THREADS;
                    if (j < part.size(p)) part.out[part.start(p) + j] = items.packed(p * STAGE + i);
                }
            if (edge != NOWHERE) row.y[edge] = E::narrow(items.edge);
        }

        index = known_index(shared, slot, known_parity);
        if (index >= rows) return;
        row = Row(x + index * step, y + index * M, M);
        part = Part(row, rank);
        edge = row.edge(lane);  // is on its way while the ring is waited for
        items.edge = edge == NOWHERE ? minus_infinity() : E::widen(row.x[edge]);
        // --8<-- [start:consume]
        for (int p = 0; p < STAGES_A_PART; ++p) {
            barrier_wait(&shared.full[stage], full_parity);
            for (int i = 0; i < STAGE; ++i) {
                int j = thread + i * THREADS;
                v[p * STAGE + i] = j < part.size(p)
                                       ? ring[stage * STAGE_VECTORS + j]
                                       : NOTHING;
            }
            reads_before_bulk_load();
            __syncwarp();
            if (thread % 32 == 0) barrier_arrive(&shared.empty[stage]);
            stage = next_stage(stage, full_parity);
        }
        // --8<-- [end:consume]
    }
}

extern "C" __global__ void __launch_bounds__(THREADS + 32)
    cluster(const Element* x, Element* y, int rows, long long M, long long step, int* counter) {
    extern __shared__ Vector ring[];  // STAGES * STAGE_VECTORS
    __shared__ Shared shared;
    int rank = cluster_rank();
    // --8<-- [start:roles]
    if (threadIdx.x < THREADS) {
        compute_rows(shared, ring, x, y, rows, M, step, rank);
    } else {
        bool leader = threadIdx.x == THREADS;
        if (leader) {
            for (int i = 0; i < STAGES; ++i) {
                barrier_init(&shared.full[i], 1);
                barrier_init(&shared.empty[i], WARPS);
            }
            for (u64& barrier : shared.known) barrier_init(&barrier, 1);
            for (u64& barrier : shared.told) barrier_init(&barrier, 1);
            barrier_init_fence();
        }
        __syncwarp();
        cluster_arrive();
        cluster_wait();
        if (leader) load_rows(shared, ring, x, rows, M, step, counter, rank);
        __syncwarp();
    }
    // A block's shared memory stays until nobody sends to it any more.
    cluster_arrive();
    cluster_wait();
    // --8<-- [end:roles]
}
