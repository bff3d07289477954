// SPDX-License-Identifier: Apache-2.0
// The functions that table.cpp lists, once for each instruction set.
#pragma once

#include "kernels.h"

namespace dflash {
namespace DFLASH_ISA {

int64_t partial_floats(const dflash_attention_args& a, int rows);
int64_t scratch_floats(const dflash_attention_args& a, int rows);
void attention_chunk(const dflash_attention_args& a, const AttentionGroup& g, int index, bool packed, float* scratch,
                     float* partial);
void attention_merge(const dflash_attention_args& a, const AttentionGroup& g, float* partials, int64_t stride,
                     float* scratch);
void context_rows(const dflash_context_kv_args& a, int layer, int first, int rows);

}  // namespace DFLASH_ISA
}  // namespace dflash
