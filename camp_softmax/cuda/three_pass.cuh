// Rung 1: softmax in three passes, one block a row.
// Pass 2 stores exp(x - m) so that pass 3 only divides: 5 elements moved per element (read; read, write;
// read, write). The rung above replaces passes 1 and 2 by one. Never the fastest; the one to understand first.
#include "reduce.cuh"

// --8<-- [start:row]
extern "C" __global__ void softmax_three_pass(const float* x, float* y,
                                              long long M) {
    __shared__ float scratch[BLOCK];
    x += blockIdx.x * M;  // this block's row; M is 64 bits wide, so the
    y += blockIdx.x * M;  // offset cannot overflow
    // --8<-- [end:row]

    // --8<-- [start:max]
    // Pass 1: the maximum. It starts from an element of the row: starting
    // from 0 is wrong for a row of negative numbers.
    float m = x[0];
    for (long long j = threadIdx.x; j < M; j += BLOCK) m = fmaxf(m, x[j]);
    m = block_reduce(m, scratch, [](float a, float b) { return fmaxf(a, b); });
    // --8<-- [end:max]

    // --8<-- [start:sum]
    // Pass 2: exp(x - m) into y, and its sum. No exponential is above 1, so
    // none overflows.
    float s = 0;
    for (long long j = threadIdx.x; j < M; j += BLOCK) {
        float e = expf(x[j] - m);
        y[j] = e;
        s += e;
    }
    s = block_reduce(s, scratch, [](float a, float b) { return a + b; });
    // --8<-- [end:sum]

    // --8<-- [start:divide]
    // Pass 3: divide. Each thread reads only what it wrote itself, so y needs
    // no barrier; s did.
    for (long long j = threadIdx.x; j < M; j += BLOCK) y[j] /= s;
    // --8<-- [end:divide]
}
