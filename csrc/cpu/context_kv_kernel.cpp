// SPDX-License-Identifier: Apache-2.0
// Context K/V, one row and head at a time: K-norm and rotation in float32, V by its factor, both into their slots.
#include "element.h"
#include "kernels_of_set.h"

namespace dflash {
namespace DFLASH_ISA {

// A head in float32. Behind head_dim it is zero up to a whole vector.
struct Head {
    alignas(64) float x[kMostHeadDim + kLanes];
};

static void read_head(const void* base, int64_t at, int dtype, int head_dim, Head& to) {
    kReadRows[dtype](base, at, 0, 1, head_dim, to.x, 0);
    for (int i = head_dim; i % kLanes; ++i) to.x[i] = 0.0f;
}

// To dtype's precision and back.
static void round_head(int dtype, int head_dim, Head& head) {
    if (dtype == DFLASH_FLOAT32) return;
    uint16_t narrow[kMostHeadDim];
    kWriteRow[dtype](head.x, head_dim, narrow, 0);
    kReadRows[dtype](narrow, 0, 0, 1, head_dim, head.x, 0);
}

static void normalise(const Head& weight, float eps, int head_dim, Head& key) {
    Vec squares = {};
    for (int i = 0; i < head_dim; i += kLanes) {
        const Vec x = load<Vec>(key.x + i);
        squares += x * x;
    }
    float sum = 0.0f;
    for (int j = 0; j < kLanes; ++j) sum += squares[j];
    const float inverse = 1.0f / __builtin_sqrtf(sum / float(head_dim) + eps);
    for (int i = 0; i < head_dim; i += kLanes)
        store(key.x + i, load<Vec>(key.x + i) * inverse * load<Vec>(weight.x + i));
}

static void turn(const float* __restrict angles, int half, bool neox, float* __restrict x) {
    const float *cos = angles, *sin = angles + half;
    if (neox) {
        float *__restrict first = x, *__restrict second = x + half;
        for (int i = 0; i < half; ++i) {
            const float a = first[i], b = second[i];
            first[i] = a * cos[i] - b * sin[i];
            second[i] = b * cos[i] + a * sin[i];
        }
        return;
    }
    for (int i = 0; i < half; ++i) {
        const float a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = a * cos[i] - b * sin[i];
        x[2 * i + 1] = b * cos[i] + a * sin[i];
    }
}

static int64_t table_row(const dflash_context_kv_args& a, const dflash_context_layer& layer, int row) {
    const int64_t position = integer(a.positions, a.position_bytes, row);
    if (position < 0) return 0;
    return position < layer.rope_rows ? position : layer.rope_rows - 1;
}

void context_rows(const dflash_context_kv_args& a, int index, int first, int rows) {
    const dflash_context_layer& layer = a.layers[index];
    Head weight, angles, key, value;
    if (layer.norm_weight != nullptr) read_head(layer.norm_weight, 0, a.dtype, a.head_dim, weight);
    for (int row = first; row < first + rows; ++row) {
        const int64_t slot = integer(layer.slots, a.slot_bytes, row);
        if (slot < 0) continue;
        const int64_t block = slot / layer.block_size, offset = slot % layer.block_size;
        if (layer.rope_table != nullptr)
            read_head(layer.rope_table, table_row(a, layer, row) * layer.rope_row_stride, a.dtype, a.rotary_dim,
                      angles);
        for (int head = 0; head < a.kv_heads; ++head) {
            const int64_t from = index * a.key_layer_stride + row * a.key_row_stride + head * a.key_head_stride;
            read_head(a.keys, from, a.dtype, a.head_dim, key);
            if (layer.norm_weight != nullptr) {
                normalise(weight, a.eps, a.head_dim, key);
                round_head(a.dtype, a.head_dim, key);
            }
            if (layer.rope_table != nullptr) {
                turn(angles.x, a.rotary_dim / 2, a.neox, key.x);
                round_head(a.dtype, a.rotary_dim, key);
            }
            kWriteRow[a.cache_dtype](key.x, a.head_dim, layer.key,
                                     block * layer.key_block_stride + head * layer.key_head_stride +
                                         offset * layer.key_slot_stride);

            const int64_t value_from =
                index * a.value_layer_stride + row * a.value_row_stride + head * a.value_head_stride;
            read_head(a.values, value_from, a.dtype, a.head_dim, value);
            if (a.factor != 1.0f) {
                for (int i = 0; i < a.head_dim; i += kLanes) store(value.x + i, load<Vec>(value.x + i) * a.factor);
                round_head(a.dtype, a.head_dim, value);
            }
            kWriteRow[a.cache_dtype](value.x, a.head_dim, layer.value,
                                     block * layer.value_block_stride + head * layer.value_head_stride +
                                         offset * layer.value_slot_stride);
        }
    }
}

}  // namespace DFLASH_ISA
}  // namespace dflash
