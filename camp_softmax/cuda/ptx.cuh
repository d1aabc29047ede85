// The instructions that CUDA C++ has no name for, each behind a function: all inline PTX of the kernels is here.
#pragma once

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

// 2^x in one instruction, relative error 2^-22. A result below 2^-126 becomes 0.
__device__ inline float exp2_flushed(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// The same with subnormal results, for three more instructions.
__device__ inline float exp2_subnormal(float x) {
    float y;
    asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// The largest of the warp's x, in every lane; x is not NaN. The hardware reduces integers only, but a float's bits
// order like an integer's once those of negative numbers are reversed.
__device__ inline float warp_max(float x) {
    int bits = __float_as_int(x);
    bits ^= (bits >> 31) & 0x7fffffff;
    asm volatile("redux.sync.max.s32 %0, %0, 0xffffffff;" : "+r"(bits));
    return __int_as_float(bits ^ ((bits >> 31) & 0x7fffffff));
}

// --- two 16-bit floats in a word ---------------------------------------------------------------------------------

__device__ inline float half_to_float(u16 x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}

__device__ inline u32 floats_to_half2(float low, float high) {
    u32 y;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}

__device__ inline u32 floats_to_bfloat2(float low, float high) {
    u32 y;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}

__device__ inline u32 half2_max(u32 a, u32 b) {  // of each half; a NaN loses
    u32 y;
    asm("max.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
    return y;
}

__device__ inline u32 bfloat2_max(u32 a, u32 b) {
    u32 y;
    asm("max.bf16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
    return y;
}

// --- barriers in shared memory: a phase ends when all arrivals and all announced bytes have come -----------------

__device__ inline u32 shared_address(const void* p) { return u32(__cvta_generic_to_shared(p)); }

__device__ inline void barrier_init(u64* barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals));
}

// Makes barrier_init visible to the cluster and to bulk copies.
__device__ inline void barrier_init_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ inline void barrier_arrive(u64* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

__device__ inline void barrier_arrive_expecting(u64* barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

// Waits for the end of the phase of this parity, the first phase being 0, and sees what this block wrote before it.
__device__ inline void barrier_wait(u64* barrier, u32 parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}" ::"r"(shared_address(barrier)), "r"(parity)
        : "memory");
}

// The same for what other blocks of the cluster sent.
__device__ inline void barrier_wait_for_cluster(u64* barrier, u32 parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}" ::"r"(shared_address(barrier)), "r"(parity)
        : "memory");
}

// What this thread read from shared memory has arrived in its registers before a bulk copy overwrites it. A load
// that is still on its way does not hold up barrier_arrive, and under full memory load it can be on its way for longer
// than the copy takes: without the fence a few vectors of some rows come from another row.
__device__ inline void reads_before_bulk_load() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Copies bytes, a multiple of 16 at addresses that are, from global to shared memory and tells the barrier.
__device__ inline void bulk_load(void* shared, const void* global, int bytes, u64* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(shared)), "l"(global), "r"(bytes), "r"(shared_address(barrier))
                 : "memory");
}

// Asks for bytes, a multiple of 16 at an address that is, to be in the L2 cache soon. Nobody waits for them. Where the
// hardware has no such instruction, nothing is asked for.
__device__ inline void prefetch(const void* global, int bytes) {
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(global), "r"(bytes) : "memory");
#endif
}

// --- clusters ----------------------------------------------------------------------------------------------------

__device__ inline int cluster_rank() {
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return int(rank);
}

__device__ inline void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// The address of p, a place in this block's shared memory, in that of another block of the cluster.
__device__ inline u32 address_in(const void* p, int rank) {
    u32 there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(p)), "r"(rank));
    return there;
}

// Writes into another block's shared memory and tells the barrier that lies there.
__device__ inline void remote_store(int* place, int value, u64* barrier, int rank) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], %1, [%2];" ::"r"(
                     address_in(place, rank)), "r"(value), "r"(address_in(barrier, rank))
                 : "memory");
}

__device__ inline void remote_store(float2* place, float2 value, u64* barrier, int rank) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(
                     address_in(place, rank)), "f"(value.x), "f"(value.y), "r"(address_in(barrier, rank))
                 : "memory");
}
