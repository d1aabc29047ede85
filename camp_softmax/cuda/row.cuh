// A row as 16-byte vectors, and softmax's arithmetic on them: what the rungs that read once share.
// ELEMENT is Float32, Float16 or BFloat16; ALIGNED says that every row starts and ends at a multiple of 16 bytes;
// OUTPUT is SOFTMAX, LOG_SOFTMAX or LOGSUMEXP; AHEAD is how many bytes before they are loaded rows are asked for.
#pragma once
#include "ptx.cuh"

template <int COUNT>
struct alignas(COUNT % 4 ? 4 : 16) Words {
    u32 word[COUNT];
};
using Vector = Words<4>;

struct Float32 {
    using Type = float;
    using Bits = u32;
    static constexpr u32 MINUS_INFINITY = 0xff800000;
    static __device__ float widen(float x) { return x; }
    static __device__ float narrow(float x) { return x; }
    static __device__ void unpack(u32 word, float* x) { x[0] = __uint_as_float(word); }
    static __device__ u32 pack(const float* x) { return __float_as_uint(x[0]); }
    static __device__ u32 max(u32 a, u32 b) { return __float_as_uint(fmaxf(__uint_as_float(a), __uint_as_float(b))); }
};

struct Float16 {
    using Type = u16;
    using Bits = u16;
    static constexpr u32 MINUS_INFINITY = 0xfc00fc00;
    static __device__ float widen(u16 x) { return half_to_float(x); }
    static __device__ u16 narrow(float x) { return u16(floats_to_half2(x, 0)); }
    static __device__ void unpack(u32 word, float* x) {
        x[0] = half_to_float(u16(word));
        x[1] = half_to_float(u16(word >> 16));
    }
    static __device__ u32 pack(const float* x) { return floats_to_half2(x[0], x[1]); }
    static __device__ u32 max(u32 a, u32 b) { return half2_max(a, b); }
};

struct BFloat16 {  // the upper half of a float32
    using Type = u16;
    using Bits = u16;
    static constexpr u32 MINUS_INFINITY = 0xff80ff80;
    static __device__ float widen(u16 x) { return __uint_as_float(u32(x) << 16); }
    static __device__ u16 narrow(float x) { return u16(floats_to_bfloat2(x, 0)); }
    static __device__ void unpack(u32 word, float* x) {
        x[0] = __uint_as_float(word << 16);
        x[1] = __uint_as_float(word & 0xffff0000);
    }
    static __device__ u32 pack(const float* x) { return floats_to_bfloat2(x[0], x[1]); }
    static __device__ u32 max(u32 a, u32 b) { return bfloat2_max(a, b); }
};

using E = ELEMENT;
using Element = E::Type;
constexpr int WIDTH = 16 / sizeof(Element);  // elements in a vector
constexpr int PAIR = 4 / sizeof(Element);    // elements in a word

enum Output { SOFTMAX, LOG_SOFTMAX, LOGSUMEXP };

constexpr int NOWHERE = -1;

// --8<-- [start:row]
// A row between two multiples of 16 bytes, with up to WIDTH - 1 elements left
// over at each end.
struct Row {
    const Element* x;
    Element* y;
    int head, vectors, tail;

    // M elements at x, and their result at y. Both start at the same place
    // between two multiples of 16 bytes.
    __device__ Row(const Element* x, Element* y, long long M)
        : x(x), y(y), head(0), tail(0) {
        if (!ALIGNED) {
            head = int(-u64(x) / sizeof(Element) % WIDTH);
            if (head > M) head = int(M);
            tail = int((M - head) % WIDTH);
        }
        vectors = int((M - head) / WIDTH);
    }
    __device__ const Vector* in() const {
        return reinterpret_cast<const Vector*>(x + head);
    }
    __device__ Vector* out() const {
        return reinterpret_cast<Vector*>(y + head);
    }
    // The element outside the vectors that is this lane's, of 2 * WIDTH lanes,
    // or NOWHERE.
    __device__ int edge(int lane) const {
        if (ALIGNED) return NOWHERE;
        int in_tail = lane - WIDTH;
        return lane < head ? lane
               : in_tail >= 0 && in_tail < tail
                   ? head + vectors * WIDTH + in_tail
                   : NOWHERE;
    }
};
// --8<-- [end:row]

// --8<-- [start:ahead]
// How many rows further on is the row to ask for: AHEAD bytes of rows lie in
// between.
__device__ inline int rows_ahead(long long M) {
    return int(AHEAD / (u32(M) * u32(sizeof(Element)))) + 1;
}
// --8<-- [end:ahead]

// --- arithmetic --------------------------------------------------------------------------------------------------

constexpr float LOG2E = 1.4426950408889634f;
constexpr float LOWEST = -3.402823466e38f;  // the neutral maximum: unlike -inf it may be subtracted from -inf
constexpr float HIGHEST = 3.402823466e38f;

__device__ inline float minus_infinity() { return __int_as_float(0xff800000); }

// --8<-- [start:raise]
// exp2_flushed is cheapest but loses results below 2^-126, which softmax has:
// so exponentials are carried times 2^24, which costs nothing (the
// multiplication by log2(e) becomes a multiply-add), and the last factor takes
// it back.
constexpr float RAISE = 24;
constexpr float LOWER = 1.0f / (1 << 24);

struct State {
    float m;  // the maximum of some elements
    float s;  // 2^24 times the sum of their exp(x - m)
};

__device__ inline float raised_exp(float x, float m) {
    return exp2_flushed(fmaf(x - m, LOG2E, RAISE));
}
// --8<-- [end:raise]

// --8<-- [start:group]
// Over a warp, or over each group of LANES of it, a power of two.
template <int LANES = 32>
__device__ inline float group_max(float m) {
    if (LANES == 32) return warp_max(m);
    for (int lanes = LANES / 2; lanes > 0; lanes /= 2)
        m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, lanes));
    return m;
}
// --8<-- [end:group]

template <int LANES = 32>
__device__ inline float warp_sum(float x) {
    for (int lanes = LANES / 2; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xffffffff, x, lanes);
    return x;
}

__device__ inline float log_sum(State row) { return logf(row.s * LOWER); }

// What one thread holds of a row: up to ITEMS vectors and, of an unaligned row, perhaps one element outside them.
template <int COUNT = 4>  // words of a vector
struct Items {
    float x[ITEMS][COUNT * PAIR];  // becomes raised_exp(x, m), for SOFTMAX
    float edge;

    __device__ float max(const Words<COUNT> (&v)[ITEMS]) {
        u32 m = v[0].word[0];
        for (int i = 0; i < ITEMS; ++i)
            for (u32 word : v[i].word) m = E::max(m, word);
        float parts[PAIR];
        E::unpack(m, parts);
        float largest = fmaxf(LOWEST, fmaxf(parts[0], parts[PAIR - 1]));
        return ALIGNED ? largest : fmaxf(largest, edge);
    }

    __device__ float exp_and_sum(const Words<COUNT> (&v)[ITEMS], float m) {
        float s = 0;
        for (int i = 0; i < ITEMS; ++i)
            for (int w = 0; w < COUNT; ++w) {
                E::unpack(v[i].word[w], &x[i][w * PAIR]);
                for (int k = w * PAIR; k < (w + 1) * PAIR; ++k) {
                    float e = raised_exp(x[i][k], m);
                    s += e;
                    if (OUTPUT == SOFTMAX) x[i][k] = e;
                }
            }
        if (!ALIGNED) {
            float e = raised_exp(edge, m);
            s += e;
            if (OUTPUT == SOFTMAX) edge = e;
        }
        return s;
    }

    // From exp(x - m) to exp(x - row.m) / sum, or to x - row.m - log(sum).
    __device__ void finish(float m, State row) {
        if (OUTPUT == LOG_SOFTMAX) {
            float log_s = log_sum(row);
            each([&](float x) { return (x - row.m) - log_s; });
            return;
        }
        float factor = exp2_subnormal((m - row.m) * LOG2E) / row.s;
        if (factor < 0x1p-100f) {  // nearly subnormal itself: then the exponentials give back the 2^24
            factor = exp2_subnormal((m - row.m) * LOG2E) / (row.s * LOWER);
            each([&](float e) { return e * LOWER; });
        }
        each([&](float e) { return e * factor; });
    }

    template <typename Function>
    __device__ void each(Function f) {
        for (int i = 0; i < ITEMS; ++i)
            for (float& value : x[i]) value = f(value);
        if (!ALIGNED) edge = f(edge);
    }

    __device__ Words<COUNT> packed(int i) const {
        Words<COUNT> v;
        for (int w = 0; w < COUNT; ++w) v.word[w] = E::pack(&x[i][w * PAIR]);
        return v;
    }
};

constexpr Vector NOTHING = {{E::MINUS_INFINITY, E::MINUS_INFINITY, E::MINUS_INFINITY, E::MINUS_INFINITY}};
