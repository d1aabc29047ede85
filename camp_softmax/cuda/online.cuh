// Rung 2: online softmax, one block a row.
// --8<-- [start:moved]
// From the rung below: a running state (m, s) finds maximum and sum in one
// pass, and nothing is stored on the way: 3 elements moved per element (read;
// read, write). The rung above reads once, while a row fits on chip.
// --8<-- [end:moved]
#include "reduce.cuh"

// The lowest finite float; -inf would give -inf - (-inf) = NaN.
constexpr float LOWEST = -3.402823466e38f;
constexpr float HIGHEST = 3.402823466e38f;

// --8<-- [start:state]
struct State {
    float m;  // the maximum so far
    float s;  // the sum of exp(x - m) so far
};

// The state of one row, from all threads of the block. `cap` bounds the
// maximum, see logsumexp_online.
__device__ State row_state(const float* x, long long M, State* scratch,
                           float cap) {
    State own = {LOWEST, 0};
    for (long long j = threadIdx.x; j < M; j += BLOCK) {
        float m = fminf(fmaxf(own.m, x[j]), cap);
        // Rescale the old sum, add the new element.
        own.s = own.s * expf(own.m - m) + expf(x[j] - m);
        own.m = m;
    }
    return block_reduce(own, scratch, [](State a, State b) {
        float m = fmaxf(a.m, b.m);
        return State{m, a.s * expf(a.m - m) + b.s * expf(b.m - m)};
    });
}
// --8<-- [end:state]

// --8<-- [start:softmax]
extern "C" __global__ void softmax_online(const float* x, float* y,
                                          long long M) {
    __shared__ State scratch[BLOCK];
    x += blockIdx.x * M;
    y += blockIdx.x * M;
    float no_cap = __int_as_float(0x7f800000);  // +inf
    State row = row_state(x, M, scratch, no_cap);
    for (long long j = threadIdx.x; j < M; j += BLOCK)
        y[j] = expf(x[j] - row.m) / row.s;
}
// --8<-- [end:softmax]

// With the maximum capped at the largest finite float, x - m is +inf where x is, never inf - inf, and the sum
// comes out +inf as it must. Softmax has no cap, since there the same row must come out NaN.
extern "C" __global__ void logsumexp_online(const float* x, float* y, long long M) {
    __shared__ State scratch[BLOCK];
    State row = row_state(x + blockIdx.x * M, M, scratch, HIGHEST);
    if (threadIdx.x == 0) y[blockIdx.x] = row.m + logf(row.s);
}
