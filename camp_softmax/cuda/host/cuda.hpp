// What CUDA C++ means on a CPU: this header is force-included before a kernel, whose source stays as it is.
//
// - A thread is a fiber of the engine, which runs one of them at a time and switches where they wait for each other.
// - `__shared__` is `thread_local`: for such a variable the compiler asks __tls_get_addr where it is, and at the end of
//   this file our own answers with a place in the shared memory of the block that runs.
// - threadIdx and blockIdx are variables that the engine sets whenever it switches.
// - As with NVRTC, there is the C library and no C++ library: two thirds of the time to compile would be its.
// - What waits, votes, shuffles or is atomic is a call into the engine. It takes the line that it was called from, for
//   what the checker has to say. Plain loads and stores reach the checker through -fsanitize=thread.
#pragma once
#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS  // where $CPLUS_INCLUDE_PATH names the C++ library: the C library's math.h still
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__ thread_local
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
};
extern const uint3 threadIdx, blockIdx;
extern const dim3 blockDim, gridDim;
constexpr int warpSize = 32;

// --- vector types ------------------------------------------------------------------------------------------------

#define HOST_VECTOR(T, NAME)                                                                \
    struct alignas(2 * sizeof(T)) NAME##2 {                                                 \
        T x, y;                                                                             \
    };                                                                                      \
    struct NAME##3 {                                                                        \
        T x, y, z;                                                                          \
    };                                                                                      \
    struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) NAME##4 {                       \
        T x, y, z, w;                                                                       \
    };                                                                                      \
    constexpr NAME##2 make_##NAME##2(T x, T y) { return {x, y}; }                           \
    constexpr NAME##3 make_##NAME##3(T x, T y, T z) { return {x, y, z}; }                   \
    constexpr NAME##4 make_##NAME##4(T x, T y, T z, T w) { return {x, y, z, w}; }
HOST_VECTOR(float, float)
HOST_VECTOR(int, int)
HOST_VECTOR(unsigned short, ushort)
HOST_VECTOR(double, double)
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
constexpr uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
constexpr uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
constexpr uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
#undef HOST_VECTOR

// --- the engine --------------------------------------------------------------------------------------------------

// The place of a call, as default arguments: they are filled in where the function is called.
#define HOST_PLACE const char *file = __builtin_FILE(), int line = __builtin_LINE()

namespace host {

struct Place {
    const char* file;
    int line;
};

enum class Warp { Sync, Shuffle, Ballot, Add, Max, Min };

extern char* shared;  // the shared memory of the block that runs

void block_barrier(Place place);
// All lanes of the mask meet. Each gives a value and gets one: of lane `from` (Shuffle), or of all of them.
uint64_t warp(Warp operation, unsigned mask, uint64_t value, int from, const char* name, Place place);
int shuffled_lane(int lane, int width);
// Around an atomic operation, which no other thread can interrupt: nothing else runs.
void atomic(void* p, unsigned bytes, Place place);
void load(void* value, const void* p, unsigned bytes);
void store(void* p, const void* value, unsigned bytes);
long long ticks(Place place);
[[noreturn]] void trap(const char* what, Place place);

template <typename To, typename From>
To bits(From from) {
    static_assert(sizeof(To) >= sizeof(From), "");
    To to{};
    memcpy(&to, &from, sizeof from);
    return to;
}

template <typename T>
T shuffle(unsigned mask, T value, int from, const char* name, Place place) {
    static_assert(sizeof(T) <= 8, "a shuffle moves up to 8 bytes");
    uint64_t got = warp(Warp::Shuffle, mask, bits<uint64_t>(value), from, name, place);
    T result;
    memcpy(&result, &got, sizeof result);
    return result;
}

template <typename T, typename Function>
T update(T* p, Function next, Place place) {
    atomic(p, sizeof(T), place);
    T old;
    load(&old, p, sizeof(T));
    T changed = next(old);
    store(p, &changed, sizeof(T));
    return old;
}

}  // namespace host

inline void __syncthreads(HOST_PLACE) { host::block_barrier({file, line}); }
inline void __syncwarp(unsigned mask = 0xffffffff, HOST_PLACE) {
    host::warp(host::Warp::Sync, mask, 0, 0, "__syncwarp()", {file, line});
}

inline int host_lane() {
    return int((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32);
}

// A lane reads from another one of its group of `width`, or keeps its own value where there is none.
template <typename T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, HOST_PLACE) {
    int first = host_lane() & ~(width - 1);
    return host::shuffle(mask, value, first + (lane & (width - 1)), "__shfl_sync()", {file, line});
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, HOST_PLACE) {
    int own = host_lane(), from = own ^ lanes;
    if (from >= (own & ~(width - 1)) + width) from = own;
    return host::shuffle(mask, value, from, "__shfl_xor_sync()", {file, line});
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32, HOST_PLACE) {
    int own = host_lane(), from = own - int(distance);
    if (from < (own & ~(width - 1))) from = own;
    return host::shuffle(mask, value, from, "__shfl_up_sync()", {file, line});
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32, HOST_PLACE) {
    int own = host_lane(), from = own + int(distance);
    if (from >= (own & ~(width - 1)) + width) from = own;
    return host::shuffle(mask, value, from, "__shfl_down_sync()", {file, line});
}

inline unsigned __ballot_sync(unsigned mask, int vote, HOST_PLACE) {
    return unsigned(host::warp(host::Warp::Ballot, mask, vote != 0, 0, "__ballot_sync()", {file, line}));
}
inline int __any_sync(unsigned mask, int vote, HOST_PLACE) {
    return host::warp(host::Warp::Ballot, mask, vote != 0, 0, "__any_sync()", {file, line}) != 0;
}
inline int __all_sync(unsigned mask, int vote, HOST_PLACE) {
    return host::warp(host::Warp::Ballot, mask, vote == 0, 0, "__all_sync()", {file, line}) == 0;
}
inline unsigned __activemask() { return 0xffffffff; }  // nothing says which lanes are together; ask for all

inline int __reduce_add_sync(unsigned mask, int x, HOST_PLACE) {
    return int(host::warp(host::Warp::Add, mask, uint64_t(int64_t(x)), 0, "__reduce_add_sync()", {file, line}));
}
inline int __reduce_max_sync(unsigned mask, int x, HOST_PLACE) {
    return int(host::warp(host::Warp::Max, mask, uint64_t(int64_t(x)), 0, "__reduce_max_sync()", {file, line}));
}
inline int __reduce_min_sync(unsigned mask, int x, HOST_PLACE) {
    return int(host::warp(host::Warp::Min, mask, uint64_t(int64_t(x)), 0, "__reduce_min_sync()", {file, line}));
}

// --- atomics: of the named type, so that a literal converts as in CUDA ---------------------------------------------

namespace host {
template <typename T>
struct Same {
    using Type = T;
};
}  // namespace host

#define HOST_ATOMIC(NAME, EXPRESSION)                                                            \
    template <typename T>                                                                        \
    T NAME(T* p, typename host::Same<T>::Type value, HOST_PLACE) {                               \
        return host::update(p, [=](T old) -> T { return EXPRESSION; }, {file, line});            \
    }
HOST_ATOMIC(atomicAdd, old + value)
HOST_ATOMIC(atomicSub, old - value)
HOST_ATOMIC(atomicExch, (void(old), value))
HOST_ATOMIC(atomicMax, old < value ? value : old)
HOST_ATOMIC(atomicMin, value < old ? value : old)
HOST_ATOMIC(atomicAnd, old & value)
HOST_ATOMIC(atomicOr, old | value)
HOST_ATOMIC(atomicXor, old ^ value)
#undef HOST_ATOMIC
template <typename T>
T atomicCAS(T* p, typename host::Same<T>::Type expected, typename host::Same<T>::Type value, HOST_PLACE) {
    return host::update(p, [=](T old) { return old == expected ? value : old; }, {file, line});
}

// An atomic operation orders what comes before it and after it here, so a fence has nothing left to do.
inline void __threadfence() {}
inline void __threadfence_block() {}

// --- memory and time ---------------------------------------------------------------------------------------------

template <typename T>
__forceinline__ T __ldg(const T* p) {
    return *p;
}
template <typename T>
__forceinline__ T __ldcs(const T* p) {
    return *p;
}
template <typename T>
__forceinline__ T __ldcg(const T* p) {
    return *p;
}
template <typename T>
__forceinline__ void __stcs(T* p, T value) {
    *p = value;
}
template <typename T>
__forceinline__ void __stcg(T* p, T value) {
    *p = value;
}

// Time passes where somebody looks at the clock, and others run meanwhile.
inline long long clock64(HOST_PLACE) { return host::ticks({file, line}); }
inline int clock(HOST_PLACE) { return int(host::ticks({file, line})); }
inline void __nanosleep(unsigned, HOST_PLACE) { host::ticks({file, line}); }

#define __trap() host::trap("__trap() was called", {__FILE__, __LINE__})
#undef assert
#define assert(condition) ((condition) ? void() : host::trap("assert(" #condition ") failed", {__FILE__, __LINE__}))

// --- arithmetic --------------------------------------------------------------------------------------------------

inline int __float_as_int(float x) { return host::bits<int>(x); }
inline unsigned __float_as_uint(float x) { return host::bits<unsigned>(x); }
inline float __int_as_float(int x) { return host::bits<float>(x); }
inline float __uint_as_float(unsigned x) { return host::bits<float>(x); }

template <typename A, typename B>
constexpr auto min(A a, B b) -> decltype(true ? a : b) {
    return b < a ? b : a;
}
template <typename A, typename B>
constexpr auto max(A a, B b) -> decltype(true ? a : b) {
    return a < b ? b : a;
}
inline float min(float a, float b) { return fminf(a, b); }  // a NaN loses, as on the GPU
inline float max(float a, float b) { return fmaxf(a, b); }

// Of the C library's functions, those that kernels call with a float.
inline float exp(float x) { return expf(x); }
inline float exp2(float x) { return exp2f(x); }
inline float log(float x) { return logf(x); }
inline float log2(float x) { return log2f(x); }
inline float sqrt(float x) { return sqrtf(x); }
inline float abs(float x) { return fabsf(x); }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline int __ffs(int x) { return __builtin_ffs(x); }

// The approximations of the GPU are the exact functions here. As macros: glibc declares some of these names itself.
#define __expf(x) expf(x)
#define __exp2f(x) exp2f(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
inline float rsqrtf(float x) { return 1 / sqrtf(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1 / x; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }

// --- shared memory -----------------------------------------------------------------------------------------------

struct HostVariable {
    unsigned long module, offset;
};
extern "C" __attribute__((used, visibility("hidden"), no_sanitize("thread"))) void* __tls_get_addr(
    HostVariable* variable) {
    return host::shared + variable->offset;
}

// --- how the engine calls a kernel ---------------------------------------------------------------------------------

namespace host {

// One letter for each parameter: p pointer, c pointer to const, i l 32 and 64 bits, f d float and double.
template <typename T>
constexpr char letter() {
    return sizeof(T) == 4 ? 'i' : sizeof(T) == 8 ? 'l' : '?';
}
template <>
constexpr char letter<float>() {
    return 'f';
}
template <>
constexpr char letter<double>() {
    return 'd';
}
template <typename T>
struct Letter {
    static constexpr char value = letter<T>();
};
template <typename T>
struct Letter<T*> {
    static constexpr char value = 'p';
};
template <typename T>
struct Letter<const T*> {
    static constexpr char value = 'c';
};

template <size_t... I>
struct Indices {};
template <size_t N, size_t... I>
struct Count : Count<N - 1, N - 1, I...> {};  // Indices<0, 1, ..., N - 1>
template <size_t... I>
struct Count<0, I...> {
    using Type = Indices<I...>;
};

template <typename... Parameters>
struct Kernel {
    static constexpr char letters[] = {Letter<Parameters>::value..., 0};
    template <size_t... I>
    __attribute__((no_sanitize("thread"))) static void call(void (*kernel)(Parameters...), void** arguments, Indices<I...>) {
        kernel(*static_cast<Parameters*>(arguments[I])...);
    }
};

template <typename... Parameters>
void call(void (*kernel)(Parameters...), void** arguments) {
    Kernel<Parameters...>::call(kernel, arguments, typename Count<sizeof...(Parameters)>::Type());
}

template <typename... Parameters>
const char* letters(void (*)(Parameters...)) {
    return Kernel<Parameters...>::letters;
}

}  // namespace host
