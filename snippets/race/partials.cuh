// Softmax of a row: each warp reduces by shuffles, and what the warps have
// goes through shared memory.

// --8<-- [start:reduce]
template <typename Op>
__device__ float block_reduce(float value, float* of_warp, Op op) {
    for (int lanes = 16; lanes > 0; lanes /= 2)
        value = op(value, __shfl_xor_sync(0xffffffff, value, lanes));
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    float result = of_warp[0];
    for (int warp = 1; warp < BLOCK / 32; ++warp)
        result = op(result, of_warp[warp]);
    return result;
}

__device__ void softmax(float* y, const float* x, int cols, float* of_max,
                        float* of_sum) {
    float m = x[0], s = 0;
    for (int j = threadIdx.x; j < cols; j += BLOCK) m = fmaxf(m, x[j]);
    m = block_reduce(m, of_max, [](float a, float b) { return fmaxf(a, b); });
    for (int j = threadIdx.x; j < cols; j += BLOCK) s += expf(x[j] - m);
    s = block_reduce(s, of_sum, [](float a, float b) { return a + b; });
    for (int j = threadIdx.x; j < cols; j += BLOCK) y[j] = expf(x[j] - m) / s;
}
// --8<-- [end:reduce]

// --8<-- [start:kernels]
extern "C" __global__ void one_array(float* out, const float* in, int rows,
                                     int cols) {
    __shared__ float of_warp[BLOCK / 32];
    long long start = (long long)blockIdx.x * cols;
    softmax(out + start, in + start, cols, of_warp, of_warp);
}

extern "C" __global__ void two_arrays(float* out, const float* in, int rows,
                                      int cols) {
    __shared__ float of_max[BLOCK / 32], of_sum[BLOCK / 32];
    long long start = (long long)blockIdx.x * cols;
    softmax(out + start, in + start, cols, of_max, of_sum);
}
// --8<-- [end:kernels]

// --8<-- [start:loop]
extern "C" __global__ void all_rows(float* out, const float* in, int rows,
                                    int cols) {
    __shared__ float of_max[BLOCK / 32], of_sum[BLOCK / 32];
    for (int row = 0; row < rows; ++row, out += cols, in += cols)
        softmax(out, in, cols, of_max, of_sum);
}
// --8<-- [end:loop]
