// The gradient of softmax and of log_softmax: dx from y, the result, and dy, the gradient of y.
//
//   softmax      dx = y * (dy - sum(y * dy))
//   log_softmax  dx = dy - exp(y) * sum(dy)
//
// As in single_read.cuh, GROUP threads share a row, and its rows of y and dy stay in registers until the sum is known:
// 3 elements moved per element (read, read, write). Both stay as they were loaded, so 16-bit ones take half the
// registers. With WHOLE_ROW false a row is longer than that: it is scanned twice, 5 elements moved. The second scan
// goes backwards: it begins with what is still in registers, and goes on with what is likeliest in the cache.
#include "row.cuh"

constexpr bool IN_WARP = GROUP <= 32;
constexpr int WARPS = THREADS / 32;
constexpr int LANES = IN_WARP ? GROUP : THREADS;
constexpr int SHUFFLED = IN_WARP ? GROUP : 32;  // lanes that share a row
constexpr int CHUNK = LANES * ITEMS;            // vectors that are in registers at a time

// --8<-- [start:formulas]
__device__ float summand(float y, float dy) {
    return OUTPUT == SOFTMAX ? y * dy : dy;
}

__device__ float gradient(float y, float dy, float sum) {
    return OUTPUT == SOFTMAX ? y * (dy - sum)
                             : dy - exp2_subnormal(y * LOG2E) * sum;
}
// --8<-- [end:formulas]

__device__ float block_sum(float own) {
    __shared__ float sums[WARPS];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (lane == 0) sums[warp] = own;
    __syncthreads();
    return warp_sum(lane < WARPS ? sums[lane] : 0);
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
    backward(const Element* dy, Element* dx, long long rows, long long M, const Element* y) {
    int lane = IN_WARP ? threadIdx.x % GROUP : threadIdx.x;
    long long index = IN_WARP ? (long long)(blockIdx.x) * (THREADS / GROUP) + threadIdx.x / GROUP : blockIdx.x;
    bool here = index < rows;  // a warp's groups stay together for the shuffles, also those beyond the last row
    if (!here) index = 0;
    Row row(dy + index * M, dx + index * M, M);
    Row result(y + index * M, nullptr, M);  // begins at the same place between two multiples of 16 bytes

    // --8<-- [start:load]
    Vector of_y[ITEMS], of_dy[ITEMS];
    auto load = [&](int chunk) {
        for (int i = 0; i < ITEMS; ++i) {
            int j = lane + i * LANES + chunk * CHUNK;
            bool mine = here && j < row.vectors;
            of_y[i] = mine ? result.in()[j] : Vector{};
            of_dy[i] = mine ? row.in()[j] : Vector{};
        }
    };
    // --8<-- [end:load]
    int edge = here ? row.edge(lane) : NOWHERE;
    float edge_y = edge == NOWHERE ? 0 : E::widen(result.x[edge]);
    float edge_dy = edge == NOWHERE ? 0 : E::widen(row.x[edge]);

    // --8<-- [start:sum]
    int chunks = WHOLE_ROW ? 1 : (row.vectors + CHUNK - 1) / CHUNK;
    float sum = ALIGNED ? 0 : summand(edge_y, edge_dy);
    for (int chunk = 0; chunk < chunks; ++chunk) {
        load(chunk);
        for (int i = 0; i < ITEMS; ++i)
            for (int w = 0; w < 4; ++w) {
                float a[PAIR], b[PAIR];
                E::unpack(of_y[i].word[w], a);
                E::unpack(of_dy[i].word[w], b);
                for (int k = 0; k < PAIR; ++k) sum += summand(a[k], b[k]);
            }
    }
    sum = warp_sum<SHUFFLED>(sum);
    if (!IN_WARP) sum = block_sum(sum);
    if (!here) return;
    // --8<-- [end:sum]

    // Always 0, but the compiler cannot know: it would keep the unpacked elements from above, and of 16-bit ones
    // these take twice the registers.
    u32 nothing = u32(M >> 63);
    // --8<-- [start:write]
    for (int chunk = chunks - 1; chunk >= 0; --chunk) {
        if (chunk < chunks - 1) load(chunk);
        for (int i = 0; i < ITEMS; ++i) {
            int j = lane + i * LANES + chunk * CHUNK;
            Vector v;
            for (int w = 0; w < 4; ++w) {
                float a[PAIR], b[PAIR];
                E::unpack(of_y[i].word[w] ^ nothing, a);
                E::unpack(of_dy[i].word[w] ^ nothing, b);
                for (int k = 0; k < PAIR; ++k) a[k] = gradient(a[k], b[k], sum);
                v.word[w] = E::pack(a);
            }
            if (j < row.vectors) row.out()[j] = v;
        }
    }
    if (edge != NOWHERE) row.y[edge] = E::narrow(gradient(edge_y, edge_dy, sum));
    // --8<-- [end:write]
}
