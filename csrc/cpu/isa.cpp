// SPDX-License-Identifier: Apache-2.0
// Which instruction sets this build has and this processor can run, and the one in use.
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "kernels.h"

namespace dflash {

namespace scalar {
extern const Kernels table;
}
#ifdef DFLASH_X86
namespace avx2 {
extern const Kernels table;
}
namespace avx512 {
extern const Kernels table;
}
#endif

namespace {

thread_local char message[256] = "";

std::vector<const Kernels*> usable() {
    std::vector<const Kernels*> found;
#ifdef DFLASH_X86
    __builtin_cpu_init();
    const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        found.push_back(&avx512::table);
    if (v3) found.push_back(&avx2::table);
#endif
    found.push_back(&scalar::table);
    return found;
}

const std::vector<const Kernels*>& sets() {
    static const std::vector<const Kernels*> all = usable();
    return all;
}

std::atomic<const Kernels*>& current() {
    static std::atomic<const Kernels*> in_use{sets().front()};
    return in_use;
}

}  // namespace

const Kernels& kernels() { return *current().load(std::memory_order_relaxed); }

int fail(const char* format, ...) {
    va_list values;
    va_start(values, format);
    std::vsnprintf(message, sizeof message, format, values);
    va_end(values);
    return 1;
}

}  // namespace dflash

int dflash_abi(void) { return DFLASH_ABI; }

const char* dflash_message(void) { return dflash::message; }

const char* dflash_instruction_sets(void) {
    static const std::string names = [] {
        std::string all;
        for (const dflash::Kernels* set : dflash::sets()) all += (all.empty() ? "" : " ") + std::string(set->name);
        return all;
    }();
    return names.c_str();
}

const char* dflash_instruction_set(void) { return dflash::kernels().name; }

int dflash_use_instruction_set(const char* name) {
    for (const dflash::Kernels* set : dflash::sets())
        if (std::strcmp(set->name, name) == 0) {
            dflash::current().store(set);
            return 0;
        }
    return dflash::fail("instruction set %s: not among %s", name, dflash_instruction_sets());
}
