// SPDX-License-Identifier: Apache-2.0
// Threads come from the OpenMP runtime that torch has already loaded, found by name when first needed. So there is
// never a second pool that spins against torch's, its thread count and core binding apply here too, and this library
// depends on no runtime of its own.
#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "kernels.h"

namespace dflash {
namespace {

struct Runtime {
    void (*run)(void (*)(void*), void*, unsigned, unsigned) = nullptr;  // GOMP_parallel; Intel's and LLVM's have it too
    int (*threads)() = nullptr;
    const char* file = "";

    Runtime() {
        run = reinterpret_cast<decltype(run)>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
        threads = reinterpret_cast<decltype(threads)>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
        Dl_info info;
        if (usable() && dladdr(reinterpret_cast<void*>(run), &info)) file = info.dli_fname;
    }
    bool usable() const { return run != nullptr && threads != nullptr; }
};

const Runtime& runtime() {
    static const Runtime found;
    return found;
}

struct Loop {
    void (*body)(void*, int, int);
    void* context;
    int tasks;
    std::atomic<int> next_task{0}, next_worker{0};

    static void work(void* loop_) {
        Loop& loop = *static_cast<Loop*>(loop_);
        const int worker = loop.next_worker.fetch_add(1, std::memory_order_relaxed);
        for (;;) {
            const int task = loop.next_task.fetch_add(1, std::memory_order_relaxed);
            if (task >= loop.tasks) return;
            loop.body(loop.context, task, worker);
        }
    }
};

struct Arena {
    float* memory = nullptr;
    int64_t size = 0;
    ~Arena() { std::free(memory); }
};

}  // namespace

int max_threads() { return runtime().usable() ? runtime().threads() : 1; }

void parallel_for(int tasks, int threads, void (*body)(void*, int, int), void* context) {
    if (threads > tasks) threads = tasks;
    if (threads <= 1) {
        for (int task = 0; task < tasks; ++task) body(context, task, 0);
        return;
    }
    Loop loop{body, context, tasks};
    runtime().run(Loop::work, &loop, unsigned(threads), 0);
}

float* arena(int64_t n) {
    static thread_local Arena mine;
    if (n > mine.size) {
        std::free(mine.memory);
        mine.size = 0;
        mine.memory = static_cast<float*>(std::aligned_alloc(64, size_t(n * 4 + 63) / 64 * 64));
        if (mine.memory == nullptr) throw std::bad_alloc();
        mine.size = n;
    }
    return mine.memory;
}

}  // namespace dflash

const char* dflash_thread_library(void) { return dflash::runtime().file; }

int dflash_threads(void) { return dflash::max_threads(); }
