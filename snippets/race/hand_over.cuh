// Thread 0 hands the elements of x to thread 1, through one slot.
extern "C" __global__ void hand_over(const float* x, float* y, long long M) {
    __shared__ float slot[1];
    for (int i = 0; i < M; ++i) {
        if (threadIdx.x == 0) slot[0] = x[i];
        __syncthreads();
        if (threadIdx.x == 1) y[i] = slot[0];
        if (BARRIERS == 2) __syncthreads();
    }
}
