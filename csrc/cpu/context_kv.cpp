// SPDX-License-Identifier: Apache-2.0
// Checks of context_kv, and its rows shared out among threads.
#include <initializer_list>

#include "kernels.h"

namespace dflash {
namespace {

constexpr int kRows = 16;              // of one layer in a task
constexpr int64_t kSerialWork = 1 << 16;  // elements that are not worth another thread

int check_layer(const dflash_context_kv_args& a, int i) {
    const dflash_context_layer& layer = a.layers[i];
    if (!layer.key || !layer.value || !layer.slots) return fail("layer %d: a pointer is null", i);
    if (layer.blocks < 1 || layer.block_size < 1)
        return fail("layer %d, blocks and block_size: found %d and %d, needed 1 or more", i, layer.blocks,
                    layer.block_size);
    if (layer.rope_table != nullptr) {
        if (!a.positions) return fail("positions: found null, needed for the rope table of layer %d", i);
        if (layer.rope_rows < 1) return fail("layer %d, rope_rows: found %d, needed 1 or more", i, layer.rope_rows);
    }
    const int64_t limit = int64_t(layer.blocks) * layer.block_size;
    if (i > 0 && layer.slots == a.layers[i - 1].slots && limit >= int64_t(a.layers[i - 1].blocks) *
                                                                     a.layers[i - 1].block_size)
        return 0;  // the same slots, checked with the layer before
    for (int row = 0; row < a.rows; ++row) {
        const int64_t slot = integer(layer.slots, a.slot_bytes, row);
        if (slot >= limit)
            return fail("layer %d, slot of row %d: found %lld, needed a slot below %lld", i, row, (long long)slot,
                        (long long)limit);
    }
    return 0;
}

int check(const dflash_context_kv_args& a) {
    if (!a.keys || !a.values || !a.layers) return fail("a pointer is null");
    for (int code : {a.dtype, a.cache_dtype})
        if (code < 0 || code > DFLASH_FLOAT16) return fail("dtype: found code %d, needed 0, 1 or 2", code);
    for (int bytes : {a.position_bytes, a.slot_bytes})
        if (bytes != 4 && bytes != 8) return fail("position_bytes and slot_bytes: found %d, needed 4 or 8", bytes);
    if (a.kv_heads < 1) return fail("kv_heads: found %d, needed 1 or more", a.kv_heads);
    if (a.head_dim < 1 || a.head_dim > kMostHeadDim)
        return fail("head_dim: found %d, needed 1 to %d", a.head_dim, kMostHeadDim);
    if (a.rotary_dim < 0 || a.rotary_dim > a.head_dim || a.rotary_dim % 2)
        return fail("rotary_dim: found %d, needed an even number up to head_dim %d", a.rotary_dim, a.head_dim);
    for (int i = 0; i < a.layer_count; ++i)
        if (check_layer(a, i)) return 1;
    return 0;
}

void run_task(void* context, int task, int) {
    const dflash_context_kv_args& a = *static_cast<const dflash_context_kv_args*>(context);
    const int first = task / a.layer_count * kRows, left = a.rows - first;
    kernels().context_rows(a, task % a.layer_count, first, left < kRows ? left : kRows);
}

}  // namespace
}  // namespace dflash

int dflash_context_kv(const dflash_context_kv_args* args) {
    using namespace dflash;
    if (args->rows < 1 || args->layer_count < 1) return 0;
    if (check(*args)) return 1;
    const int64_t work = int64_t(args->rows) * args->layer_count * args->kv_heads * args->head_dim;
    const int64_t useful = 1 + work / kSerialWork;
    const int threads = int(useful < max_threads() ? useful : max_threads());
    const int tasks = (args->rows + kRows - 1) / kRows * args->layer_count;
    parallel_for(tasks, threads, run_task, const_cast<dflash_context_kv_args*>(args));
    return 0;
}
