// SPDX-License-Identifier: Apache-2.0
// The CPU kernels' C interface: pointers, strides and sizes only, so that one build serves every torch release.
//
// Strides count elements, not bytes; the last dimension is always contiguous. Functions return 0, or 1 and then
// dflash_message() says what was wrong, in the calling thread. Nothing is written before all checks have passed.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DFLASH_ABI 1  // changes with every struct below
#define DFLASH_API __attribute__((visibility("default")))

enum { DFLASH_FLOAT32 = 0, DFLASH_BFLOAT16 = 1, DFLASH_FLOAT16 = 2 };

// Block rows against a paged cache that already holds the context and the block itself.
// Row r of a request is at position p = seq_len - rows + r; row 0 is the anchor. It sees key position c when
// c <= p or the layer is not causal, and, with a window, when |p - c| < window.
typedef struct {
    const void* query;           // [rows, heads, head_dim]
    void* output;                // the same shape; rows of no request and of requests of length 0 become zero
    const void* key;             // [blocks, kv_heads, block_size, head_dim]
    const void* value;           // the same shape and strides
    const int32_t* block_table;  // [requests, pages]
    const int32_t* query_start;  // [requests + 1]
    const int32_t* seq_lens;     // [requests], block rows included
    const float* sinks;          // [heads], or null
    int64_t query_row_stride, query_head_stride;
    int64_t output_row_stride, output_head_stride;
    int64_t kv_block_stride, kv_head_stride, kv_slot_stride;
    int64_t block_table_stride;
    int32_t rows, requests, heads, kv_heads, head_dim;
    int32_t blocks, block_size, pages;
    int32_t dtype, kv_dtype;     // of query and output; of key and value
    int32_t window, causal;      // window 0: none
    float scale;
} dflash_attention_args;

DFLASH_API int dflash_attention(const dflash_attention_args* args);

DFLASH_API int dflash_abi(void);
DFLASH_API const char* dflash_message(void);

// Instruction sets that were built and that this processor has, best first, separated by spaces.
DFLASH_API const char* dflash_instruction_sets(void);
// The one in use.
DFLASH_API const char* dflash_instruction_set(void);
// Use one of them from now on, in all threads. Returns 1 when it is not among them.
DFLASH_API int dflash_use_instruction_set(const char* name);
// File of the OpenMP runtime whose threads are used (the one that torch loaded), or "" when there is none: then
// everything runs in the calling thread.
DFLASH_API const char* dflash_thread_library(void);
// Threads that a large call would use now; follows torch.set_num_threads.
DFLASH_API int dflash_threads(void);

#ifdef __cplusplus
}
#endif
