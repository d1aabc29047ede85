// Kernels that break one rule of the checker each.

// --8<-- [start:memory]
extern "C" __global__ void race(const float* x, float* y, long long M) {
    y[0] = x[threadIdx.x];
}

extern "C" __global__ void uninitialised(const float* x, float* y,
                                         long long M) {
    __shared__ float s[64];
    if (threadIdx.x != 5) s[threadIdx.x] = 0;
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x];
}

extern "C" __global__ void out_of_bounds(const float* x, float* y,
                                         long long M) {
    y[threadIdx.x] = x[threadIdx.x + 1];
}

extern "C" __global__ void misaligned(const float* x, float* y, long long M) {
    y[threadIdx.x] = reinterpret_cast<const float4*>(x + 1)->w;
}

extern "C" __global__ void to_const(const float* x, float* y, long long M) {
    const_cast<float*>(x)[threadIdx.x] = 0;
}
// --8<-- [end:memory]

// --8<-- [start:threads]
extern "C" __global__ void divergence(const float* x, float* y, long long M) {
    if (threadIdx.x < 32) {
        __syncthreads();
    } else {
        __syncthreads();
    }
}

extern "C" __global__ void shuffle_mask(const float* x, float* y, long long M) {
    y[threadIdx.x] = __shfl_xor_sync(0x0000ffff, x[threadIdx.x], 1);
}

extern "C" __global__ void trap(const float* x, float* y, long long M) {
    assert(threadIdx.x < M / 2);
}
// --8<-- [end:threads]
