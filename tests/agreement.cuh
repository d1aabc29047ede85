// Softmax as one may write it while learning, and right. agreement.toml says
// where each goes wrong.
#include "reduce.cuh"

__device__ float larger(float a, float b) { return fmaxf(a, b); }
__device__ float sum(float a, float b) { return a + b; }

// The row stays in shared memory: it is read once.
extern "C" __global__ void kept(const float* x, float* y, long long M) {
    extern __shared__ float row[];
    __shared__ float scratch[BLOCK];
    x += blockIdx.x * M;
    y += blockIdx.x * M;

    float m = x[0];
    for (long long j = threadIdx.x; j < M; j += BLOCK) {
        row[j] = x[j];
        m = fmaxf(m, row[j]);
    }
    m = block_reduce(m, scratch, larger);
    float s = 0;
    for (long long j = threadIdx.x; j < M; j += BLOCK) {
        row[j] = expf(row[j] - m);
        s += row[j];
    }
    s = block_reduce(s, scratch, sum);
    for (long long j = threadIdx.x; j < M; j += BLOCK) y[j] = row[j] / s;
}

// logsumexp: each warp adds to one place, and thread 0 stores the result.
extern "C" __global__ void added(const float* x, float* y, long long M) {
    __shared__ float scratch[BLOCK];
    __shared__ float total;
    x += blockIdx.x * M;

    float m = x[0];
    for (long long j = threadIdx.x; j < M; j += BLOCK) m = fmaxf(m, x[j]);
    m = block_reduce(m, scratch, larger);

    if (threadIdx.x == 0) total = 0;
    __syncthreads();  // it is 0
    float s = 0;
    for (long long j = threadIdx.x; j < M; j += BLOCK) s += expf(x[j] - m);
    for (int lanes = 16; lanes > 0; lanes /= 2)
        s += __shfl_xor_sync(0xffffffff, s, lanes);
    if (threadIdx.x % 32 == 0) atomicAdd(&total, s);
    __syncthreads();  // it is complete
    if (threadIdx.x == 0) y[blockIdx.x] = m + logf(total);
}

// Four columns in one instruction; cols is a multiple of 4.
extern "C" __global__ void vectors(float* out, const float* in, int rows,
                                   int cols) {
    __shared__ float scratch[BLOCK];
    const float* row = in + (long long)blockIdx.x * cols;
    auto x = reinterpret_cast<const float4*>(row);
    auto y = reinterpret_cast<float4*>(out + (long long)blockIdx.x * cols);
    int n = cols / 4;

    float m = row[0];
    for (int j = threadIdx.x; j < n; j += BLOCK) {
        float4 v = x[j];
        m = fmaxf(m, fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
    }
    m = block_reduce(m, scratch, larger);
    float s = 0;
    for (int j = threadIdx.x; j < n; j += BLOCK) {
        float4 v = x[j];
        s += expf(v.x - m) + expf(v.y - m) + expf(v.z - m) + expf(v.w - m);
    }
    s = block_reduce(s, scratch, sum);
    for (int j = threadIdx.x; j < n; j += BLOCK) {
        float4 v = x[j];
        y[j] = make_float4(expf(v.x - m) / s, expf(v.y - m) / s,
                           expf(v.z - m) / s, expf(v.w - m) / s);
    }
}

// A warp a row. The maximum goes through shuffles, the sum through a tree in
// shared memory, 32 places a warp.
extern "C" __global__ void warps(float* out, const float* in, int rows,
                                 int cols) {
    __shared__ float places[BLOCK];
    float* place = places + threadIdx.x / 32 * 32;
    int lane = threadIdx.x % 32;
    int row = blockIdx.x * (BLOCK / 32) + threadIdx.x / 32;
    if (row >= rows) return;
    const float* x = in + (long long)row * cols;
    float* y = out + (long long)row * cols;

    float m = x[0];
    for (int j = lane; j < cols; j += 32) m = fmaxf(m, x[j]);
    for (int lanes = 16; lanes > 0; lanes /= 2)
        m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, lanes));

    float s = 0;
    for (int j = lane; j < cols; j += 32) s += expf(x[j] - m);
    place[lane] = s;
    __syncwarp();  // every lane's sum is there
    for (int n = 16; n > 0; n /= 2) {
        if (lane < n) place[lane] += place[lane + n];
        __syncwarp();  // this level is complete
    }
    for (int j = lane; j < cols; j += 32) y[j] = expf(x[j] - m) / place[0];
}
