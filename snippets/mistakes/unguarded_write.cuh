// exp(x) of each row, BLOCK columns at a time. The last BLOCK are not all real,
// and the store does not ask.
extern "C" __global__ void unguarded_write(const float* x, float* y,
                                           long long M) {
    x += blockIdx.x * M;
    y += blockIdx.x * M;
    for (long long j0 = 0; j0 < M; j0 += BLOCK) {
        long long j = j0 + threadIdx.x;
        float value = j < M ? x[j] : __int_as_float(0xff800000);  // -inf
        y[j] = expf(value);  // missing: if (j < M)
    }
}
