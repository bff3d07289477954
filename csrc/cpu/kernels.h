// SPDX-License-Identifier: Apache-2.0
// What each instruction set provides, and the work that the entry points hand to it.
#pragma once

#include "dflash_cpu.h"

namespace dflash {

// One kv head of one request: its query rows and the keys that any of them sees.
struct AttentionGroup {
    int request, kv_head;
    int first_row, rows;  // in query
    int anchor;           // position of the first row
    int first_key, keys;  // positions [first_key, first_key + keys)
    int chunks, chunk_keys;
    int64_t first_partial;  // index of its first chunk
};

struct Kernels {
    const char* name;
    // Floats that one chunk's partial result takes, and that a worker needs as scratch.
    int64_t (*attention_partial)(const dflash_attention_args&, int rows);
    int64_t (*attention_scratch)(const dflash_attention_args&, int rows);
    // Keys of one chunk; leaves unnormalised output, and maximum and sum of each row's weights, in `partial`.
    // packed: the scratch holds this group's query from a chunk before.
    void (*attention_chunk)(const dflash_attention_args&, const AttentionGroup&, int chunk, bool packed,
                            float* scratch, float* partial);
    // Merges a group's chunks, in order, into the output; uses the partial results up.
    void (*attention_merge)(const dflash_attention_args&, const AttentionGroup&, float* partials,
                            int64_t partial_stride, float* scratch);
    // Rows [first, first + rows) of one layer.
    void (*context_rows)(const dflash_context_kv_args&, int layer, int first, int rows);
};

constexpr int kMostHeadDim = 1024;  // of context_kv, which keeps a head on the stack

const Kernels& kernels();  // of the instruction set in use

int fail(const char* format, ...) __attribute__((format(printf, 1, 2)));  // sets dflash_message(), returns 1

// Element i of an array of 4- or 8-byte integers.
static inline int64_t integer(const void* array, int bytes, int64_t i) {
    return bytes == 8 ? static_cast<const int64_t*>(array)[i] : static_cast<const int32_t*>(array)[i];
}

// body(context, task, worker) for every task; workers are numbered from 0 to threads - 1.
void parallel_for(int tasks, int threads, void (*body)(void*, int, int), void* context);
int max_threads();

// At least n floats, aligned for any vector; valid until the calling thread asks again.
float* arena(int64_t n);

}  // namespace dflash
