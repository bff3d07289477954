// SPDX-License-Identifier: Apache-2.0
// A vector of DFLASH_LANES floats in the compiler's own vector syntax, so that one source serves every instruction
// set. Everything lives in a namespace named after the set: no code of one set may be linked into another.
#pragma once

#include <cstdint>

namespace dflash {
namespace DFLASH_ISA {

constexpr int kLanes = DFLASH_LANES;

typedef float Vec __attribute__((vector_size(4 * DFLASH_LANES)));
typedef int32_t IntVec __attribute__((vector_size(4 * DFLASH_LANES)));
typedef uint32_t BitVec __attribute__((vector_size(4 * DFLASH_LANES)));
typedef uint16_t HalfVec __attribute__((vector_size(2 * DFLASH_LANES)));

template <class V, class T>
static inline V load(const T* from) {
    V v;
    __builtin_memcpy(&v, from, sizeof v);
    return v;
}

template <class V, class T>
static inline void store(T* to, V v) {
    __builtin_memcpy(to, &v, sizeof v);
}

template <class To, class From>
static inline To bits_as(From v) {
    To to;
    __builtin_memcpy(&to, &v, sizeof to);
    return to;
}

static inline Vec broadcast(float x) { return Vec{} + x; }

static inline Vec larger(Vec a, Vec b) { return a > b ? a : b; }

// 2^x for x <= 0; exactly 1 at 0 and exactly 0 from -127 down. Relative error under 2e-7 above -126.
static inline Vec exp2_nonpositive(Vec x) {
    constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
    const Vec lowest = broadcast(-127.0f);  // whose power has all bits zero
    x = lowest > x ? lowest : x;            // a NaN stays
    const Vec shifted = x + kRound;
    const Vec f = x - (shifted - kRound);
    Vec p = f * 0x1.446c7ep-13f + 0x1.5f48c8p-10f;
    p = p * f + 0x1.3b29d8p-7f;
    p = p * f + 0x1.c6aeccp-5f;
    p = p * f + 0x1.ebfbe0p-3f;
    p = p * f + 0x1.62e430p-1f;
    p = p * f + 1.0f;
    const BitVec power = (bits_as<BitVec>(shifted) + 127u) << 23;  // the bits of kRound itself are shifted out
    return p * bits_as<Vec>(power);
}

static inline int round_up(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

}  // namespace DFLASH_ISA
}  // namespace dflash
