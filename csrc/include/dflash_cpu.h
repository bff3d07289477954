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

// Norm, rotate and store the context K/V of every draft layer; without norm_weight and rope_table, only store.
// The arithmetic is float32, rounded to dtype after the norm, after the rotation and after the value factor.
typedef struct {
    void* key;                // [blocks, kv_heads, block_size, head_dim]
    void* value;              // the same shape
    const void* norm_weight;  // [head_dim] of dtype, or null
    const void* rope_table;   // [rope_rows, rotary_dim] of dtype, cosines then sines; or null
    const void* slots;        // [rows] of slot_bytes: block * block_size + offset; negative: the row is left out
    int64_t key_block_stride, key_head_stride, key_slot_stride;
    int64_t value_block_stride, value_head_stride, value_slot_stride;
    int64_t rope_row_stride;
    int32_t blocks, block_size, rope_rows;
} dflash_context_layer;

typedef struct {
    const void* keys;       // [layers, rows, kv_heads, head_dim]
    const void* values;     // the same shape
    const void* positions;  // [rows] of position_bytes; held within the rope table; null when no layer has one
    const dflash_context_layer* layers;
    int64_t key_layer_stride, key_row_stride, key_head_stride;
    int64_t value_layer_stride, value_row_stride, value_head_stride;
    int32_t layer_count, rows, kv_heads, head_dim, rotary_dim;
    int32_t dtype, cache_dtype;            // of keys, values and weights; of the caches
    int32_t position_bytes, slot_bytes;    // 4 or 8
    int32_t neox;                          // dims i and i + rotary_dim / 2 turn together; else 2i and 2i + 1
    float eps, factor;                     // values are multiplied by factor
} dflash_context_kv_args;

DFLASH_API int dflash_context_kv(const dflash_context_kv_args* args);

// Fill a drafter's block inputs from the target's verified step: see vllm_dflash/reference/mask_fill.py, which it
// equals bit for bit.
typedef struct {
    void* data;     // null: not given, or not wanted
    int32_t bytes;  // of an element: 4 or 8
    int32_t size;   // elements
} dflash_integers;

typedef struct {
    const int32_t* block_table;  // [requests, pages]
    int64_t* query_slots;        // [padded_tokens]
    int64_t* context_slots;      // [context_size]
    int64_t block_table_stride;
    int32_t pages, block_size, context_size;
} dflash_mask_fill_group;

typedef struct {
    dflash_integers positions, query_start, anchor_tokens, num_rejected, request_state, num_sampled, prefill_tokens;
    dflash_integers out_input_ids, out_positions, out_context_positions, out_sample_rows;
    dflash_integers out_query_start, out_seq_lens, out_sample_positions, out_sample_requests;
    uint8_t* out_is_padding;  // [padded_tokens], or null
    const float* temperature;
    float* out_temperature;
    const int64_t* seeds;
    int64_t* out_seeds;
    const dflash_mask_fill_group* groups;
    int32_t group_count, requests, drafts, padded_tokens;
    int32_t states;  // rows of anchor_tokens, temperature, seeds
    int64_t mask_token, max_model_len;
} dflash_mask_fill_args;

DFLASH_API int dflash_mask_fill(const dflash_mask_fill_args* args);

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
