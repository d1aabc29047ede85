// The functions of ../ptx.cuh on a CPU, under the same names: it takes the place of that file, whose inline PTX no CPU
// knows. What only computes is computed here; barriers, copies and clusters are the engine's.
#pragma once

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

// --- arithmetic --------------------------------------------------------------------------------------------------

// 2^x of the C library, right to the last place but for rounding, where the GPU's has a relative error of up to 2^-22.
// A result below 2^-126 becomes 0, as there.
__device__ inline float exp2_flushed(float x) {
    float y = exp2f(x);
    return y < 0x1p-126f ? 0.0f : y;
}

__device__ inline float exp2_subnormal(float x) { return exp2f(x); }

__device__ inline float warp_max(float x, HOST_PLACE) {
    int bits = __float_as_int(x);
    bits ^= (bits >> 31) & 0x7fffffff;
    bits = int(host::warp(host::Warp::Max, 0xffffffff, u64(bits), 0, "warp_max()", {file, line}));
    return __int_as_float(bits ^ ((bits >> 31) & 0x7fffffff));
}

// --- two 16-bit floats in a word, rounded to nearest even --------------------------------------------------------

__device__ inline float half_to_float(u16 x) {
    u32 sign = u32(x & 0x8000) << 16, rest = x & 0x7fff;
    if (rest >= 0x7c00) return __uint_as_float(sign | 0x7f800000 | rest << 13);  // inf or NaN
    // The exponent's bias is 15 here and 127 there; the multiplication makes subnormal numbers normal, too.
    return __uint_as_float(sign | __float_as_uint(__uint_as_float(rest << 13) * 0x1p112f));
}

__device__ inline u16 float_to_half(float x) {
    u32 bits = __float_as_uint(x), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000) return 0x7fff;                // NaN
    if (rest >= 0x477ff000) return u16(sign | 0x7c00);   // from 65520 on: inf
    if (rest < 0x38800000) {                             // below 2^-14: a multiple of 2^-24, which is the last place of
        float sum = __uint_as_float(rest) + 0.5f;        // numbers from 0.5 to 1
        return u16(sign | (__float_as_uint(sum) - 0x3f000000));
    }
    return u16(sign | (rest - 0x38000000 + 0xfff + (rest >> 13 & 1)) >> 13);
}

__device__ inline u16 float_to_bfloat(float x) {
    u32 bits = __float_as_uint(x);
    if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
    return u16((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

__device__ inline u32 floats_to_half2(float low, float high) { return float_to_half(low) | u32(float_to_half(high)) << 16; }
__device__ inline u32 floats_to_bfloat2(float low, float high) {
    return float_to_bfloat(low) | u32(float_to_bfloat(high)) << 16;
}

// The larger of two 16-bit floats of either kind, by their bits: those of negative numbers are reversed, then floats
// order like integers. What lies above INFINITY is NaN and loses.
template <u16 INFINITY_BITS>
__device__ inline u16 max16(u16 a, u16 b) {
    if ((a & 0x7fff) > INFINITY_BITS) return (b & 0x7fff) > INFINITY_BITS ? 0x7fff : b;
    if ((b & 0x7fff) > INFINITY_BITS) return a;
    short x = short(a ^ (short(a) >> 15 & 0x7fff)), y = short(b ^ (short(b) >> 15 & 0x7fff));
    return x < y ? b : a;
}

__device__ inline u32 half2_max(u32 a, u32 b) {
    return max16<0x7c00>(u16(a), u16(b)) | u32(max16<0x7c00>(u16(a >> 16), u16(b >> 16))) << 16;
}
__device__ inline u32 bfloat2_max(u32 a, u32 b) {
    return max16<0x7f80>(u16(a), u16(b)) | u32(max16<0x7f80>(u16(a >> 16), u16(b >> 16))) << 16;
}

// --- barriers, copies and clusters -------------------------------------------------------------------------------

namespace host {
void barrier_init(void* barrier, int arrivals, Place place);
void async_fence();
void barrier_arrive(void* barrier, int bytes, const char* name, Place place);
void barrier_wait(void* barrier, unsigned parity, const char* name, Place place);
void bulk_load(void* to, const void* from, int bytes, void* barrier, Place place);
void prefetch(const void* from, int bytes, Place place);
void remote_store(void* to, uint64_t value, int bytes, void* barrier, int rank, Place place);
int cluster_rank();
void cluster_arrive(Place place);
void cluster_wait(Place place);
}  // namespace host

__device__ inline void barrier_init(u64* barrier, int arrivals, HOST_PLACE) {
    host::barrier_init(barrier, arrivals, {file, line});
}
__device__ inline void barrier_init_fence() { host::async_fence(); }
__device__ inline void barrier_arrive(u64* barrier, HOST_PLACE) {
    host::barrier_arrive(barrier, 0, "barrier_arrive()", {file, line});
}
__device__ inline void barrier_arrive_expecting(u64* barrier, int bytes, HOST_PLACE) {
    host::barrier_arrive(barrier, bytes, "barrier_arrive_expecting()", {file, line});
}
__device__ inline void barrier_wait(u64* barrier, u32 parity, HOST_PLACE) {
    host::barrier_wait(barrier, parity, "barrier_wait()", {file, line});
}
__device__ inline void barrier_wait_for_cluster(u64* barrier, u32 parity, HOST_PLACE) {
    host::barrier_wait(barrier, parity, "barrier_wait_for_cluster()", {file, line});
}
__device__ inline void reads_before_bulk_load() { host::async_fence(); }
__device__ inline void bulk_load(void* shared, const void* global, int bytes, u64* barrier, HOST_PLACE) {
    host::bulk_load(shared, global, bytes, barrier, {file, line});
}
__device__ inline void prefetch(const void* global, int bytes, HOST_PLACE) {
    host::prefetch(global, bytes, {file, line});
}

__device__ inline int cluster_rank() { return host::cluster_rank(); }
__device__ inline void cluster_arrive(HOST_PLACE) { host::cluster_arrive({file, line}); }
__device__ inline void cluster_wait(HOST_PLACE) { host::cluster_wait({file, line}); }

__device__ inline void remote_store(int* place, int value, u64* barrier, int rank, HOST_PLACE) {
    host::remote_store(place, host::bits<u64>(value), sizeof value, barrier, rank, {file, line});
}
__device__ inline void remote_store(float2* place, float2 value, u64* barrier, int rank, HOST_PLACE) {
    host::remote_store(place, host::bits<u64>(value), sizeof value, barrier, rank, {file, line});
}
