// Kernels that are wrong, and in which the checker finds nothing.
extern "C" __global__ void no_fence(const float* x, float* y, long long M) {
    if (threadIdx.x == 0) {
        y[0] = x[7];
        atomicExch(&y[1], 1);  // missing: __threadfence() before it
    }
    if (threadIdx.x == 40) {
        while (atomicAdd(&y[1], 0) == 0) continue;
        y[2] = y[0];  // on a GPU, perhaps the old one
    }
}

extern "C" __global__ void next_array(const float* x, float* y, long long M) {
    __shared__ float a[32], b[32];
    float* lower = a < b ? a : b;
    lower[threadIdx.x] = x[threadIdx.x];  // goes on into the other one
}

extern "C" __global__ void not_set(const float* x, float* y, long long M) {
    y[threadIdx.x] += x[threadIdx.x];  // whatever y held before
}

__device__ float total;

extern "C" __global__ void variable(const float* x, float* y, long long M) {
    total += x[threadIdx.x];  // all threads
}

extern "C" __global__ void not_run(const float* x, float* y, long long M) {
    if (x[threadIdx.x] > 1000) y[0] = x[threadIdx.x];  // not with this x
}
