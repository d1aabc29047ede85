// softmax_three_pass without the last barrier of its first reduction.

// --8<-- [start:reduce]
// If `late`, all warps but the first are held up before they read the
// result, as the hardware may do to any warp at any time.
template <typename Op>
__device__ float block_reduce(float value, float* scratch, Op op, bool late) {
    int t = threadIdx.x;
    scratch[t] = value;
    __syncthreads();
    for (int n = BLOCK / 2; n > 0; n /= 2) {
        if (t < n) scratch[t] = op(scratch[t], scratch[t + n]);
        __syncthreads();
    }
    long long start = clock64();
    while (late && t >= 32 && clock64() - start < 100000) continue;
    return *(volatile float*)scratch;  // missing: __syncthreads()
}
// --8<-- [end:reduce]

__device__ void softmax(const float* x, float* y, long long M, bool late) {
    __shared__ float scratch[BLOCK];
    x += blockIdx.x * M;
    y += blockIdx.x * M;

    float m = x[0];
    for (long long j = threadIdx.x; j < M; j += BLOCK) m = fmaxf(m, x[j]);
    auto larger = [](float a, float b) { return fmaxf(a, b); };
    m = block_reduce(m, scratch, larger, late);

    float s = 0;
    for (long long j = threadIdx.x; j < M; j += BLOCK) {
        float e = expf(x[j] - m);
        y[j] = e;
        s += e;
    }
    auto sum = [](float a, float b) { return a + b; };
    s = block_reduce(s, scratch, sum, false);

    for (long long j = threadIdx.x; j < M; j += BLOCK) y[j] /= s;
}

extern "C" __global__ void on_time(const float* x, float* y, long long M) {
    softmax(x, y, M, false);
}

extern "C" __global__ void late(const float* x, float* y, long long M) {
    softmax(x, y, M, true);
}
