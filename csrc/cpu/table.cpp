// SPDX-License-Identifier: Apache-2.0
#include "kernels_of_set.h"

#define DFLASH_TEXT(x) #x
#define DFLASH_NAME(x) DFLASH_TEXT(x)

namespace dflash {
namespace DFLASH_ISA {

extern const Kernels table;
const Kernels table = {DFLASH_NAME(DFLASH_ISA), partial_floats,  scratch_floats,
                       attention_chunk,         attention_merge, context_rows};

}  // namespace DFLASH_ISA
}  // namespace dflash
