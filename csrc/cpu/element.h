// SPDX-License-Identifier: Apache-2.0
// Stored numbers (float32, bfloat16, float16) to float32 and back, round to nearest even.
#pragma once

#include "vector.h"

namespace dflash {
namespace DFLASH_ISA {

struct Float32 {
    float x;
};
struct Bfloat16 {
    uint16_t bits;
};
struct Float16 {
    uint16_t bits;
};

static inline Vec widen(const Float32* from) { return load<Vec>(from); }

static inline Vec widen(const Bfloat16* from) {
    return bits_as<Vec>(__builtin_convertvector(load<HalfVec>(from), BitVec) << 16);
}

static inline Vec widen(const Float16* from) {
    constexpr uint32_t kRebias = 112u << 23, kSmallestNormal = 113u << 23;
    const BitVec h = __builtin_convertvector(load<HalfVec>(from), BitVec);
    const BitVec magnitude = (h & 0x7fffu) << 13;
    const Vec subnormal = bits_as<Vec>(magnitude + kSmallestNormal) - bits_as<Vec>(BitVec{} + kSmallestNormal);
    BitVec wide = magnitude + kRebias;
    wide = (magnitude >= (0x7c00u << 13)) ? wide + kRebias : wide;
    wide = (magnitude < (1u << 23)) ? bits_as<BitVec>(subnormal) : wide;
    return bits_as<Vec>(wide | ((h & 0x8000u) << 16));
}

static inline void narrow(Float32* to, Vec v) { store(to, v); }

static inline void narrow(Bfloat16* to, Vec v) {
    const BitVec u = bits_as<BitVec>(v);
    const BitVec rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    const BitVec h = ((u & 0x7fffffffu) > 0x7f800000u) ? ((u >> 16) | 0x40u) : rounded;
    store(to, __builtin_convertvector(h, HalfVec));
}

static inline void narrow(Float16* to, Vec v) {
    constexpr uint32_t kSmallestNormal = 113u << 23, kHalf = 126u << 23, kOverflow = 0x477ff000u;  // 65520
    const BitVec u = bits_as<BitVec>(v), magnitude = u & 0x7fffffffu;
    const Vec aligned = bits_as<Vec>(magnitude) + bits_as<Vec>(BitVec{} + kHalf);
    BitVec h = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    h = (magnitude < kSmallestNormal) ? bits_as<BitVec>(aligned) - kHalf : h;
    h = (magnitude >= kOverflow) ? BitVec{} + 0x7c00u : h;
    h = (magnitude > 0x7f800000u) ? BitVec{} + 0x7e00u : h;
    store(to, __builtin_convertvector(h | ((u >> 16) & 0x8000u), HalfVec));
}

// `rows` rows of n elements, `stride` apart, to float rows of `to_stride`.
template <class T>
static void read_rows(const void* base, int64_t first, int64_t stride, int rows, int n, float* to, int to_stride) {
    const int whole = n / kLanes * kLanes;
    for (int r = 0; r < rows; ++r) {
        const T* from = static_cast<const T*>(base) + first + r * stride;
        float* row = to + r * to_stride;
        for (int i = 0; i < whole; i += kLanes) store(row + i, widen(from + i));
        if (whole < n) {
            T last[kLanes] = {};
            float wide[kLanes];
            __builtin_memcpy(last, from + whole, (n - whole) * sizeof(T));
            store(wide, widen(last));
            __builtin_memcpy(row + whole, wide, (n - whole) * sizeof(float));
        }
    }
}

template <class T>
static void write_row(const float* from, int n, void* base, int64_t first) {
    T* to = static_cast<T*>(base) + first;
    const int whole = n / kLanes * kLanes;
    for (int i = 0; i < whole; i += kLanes) narrow(to + i, load<Vec>(from + i));
    if (whole < n) {
        T last[kLanes];
        float wide[kLanes] = {};
        __builtin_memcpy(wide, from + whole, (n - whole) * sizeof(float));
        narrow(last, load<Vec>(wide));
        __builtin_memcpy(to + whole, last, (n - whole) * sizeof(T));
    }
}

using ReadRows = void (*)(const void*, int64_t, int64_t, int, int, float*, int);
using WriteRow = void (*)(const float*, int, void*, int64_t);

// Indexed by the dtype codes of dflash_cpu.h.
static constexpr ReadRows kReadRows[] = {read_rows<Float32>, read_rows<Bfloat16>, read_rows<Float16>};
static constexpr WriteRow kWriteRow[] = {write_row<Float32>, write_row<Bfloat16>, write_row<Float16>};

}  // namespace DFLASH_ISA
}  // namespace dflash
