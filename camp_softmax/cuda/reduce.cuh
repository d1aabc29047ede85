// The block reduction that the kernels share: BLOCK values in, one out, known to every thread.
#pragma once

static_assert(BLOCK > 0 && (BLOCK & (BLOCK - 1)) == 0, "the tree halves BLOCK until one value is left");

// Halves the number of values at each level: with BLOCK = 8,
//
//   0   1   2   3   4   5   6   7
//   0+4 1+5 2+6 3+7                    n = 4
//   0..6 1..7                          n = 2   (even places, odd places)
//   all                                n = 1
//
// BLOCK is a power of two, blockDim.x == BLOCK, and scratch is shared memory for BLOCK values.
// --8<-- [start:reduce]
template <typename T, typename Op>
__device__ T block_reduce(T value, T* scratch, Op op) {
    int t = threadIdx.x;
    scratch[t] = value;
    __syncthreads();  // every value is in scratch
    for (int n = BLOCK / 2; n > 0; n /= 2) {
        if (t < n) scratch[t] = op(scratch[t], scratch[t + n]);
        __syncthreads();  // this level is complete before the next one reads it
    }
    T result = scratch[0];
    __syncthreads();  // everyone has read the result: scratch may be used again
    return result;
}
// --8<-- [end:reduce]
