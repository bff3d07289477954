// SPDX-License-Identifier: Apache-2.0
// Checks, plan and merge order of drafter attention. How keys are split depends on the request alone, so a request's
// result does not change with the number of threads or with what else is in the batch.
#include <atomic>
#include <cstddef>
#include <new>
#include <vector>

#include "kernels.h"

namespace dflash {
namespace {

constexpr int kSmallChunk = 128, kChunk = 256, kMostChunks = 16;  // keys; at least two chunks above kSmallChunk
constexpr int64_t kSerialWork = 1 << 18;  // multiply-adds that are not worth another thread

struct Task {
    int group, chunk;
};

struct Plan {
    std::vector<AttentionGroup> groups;
    std::vector<Task> tasks;
    int64_t work = 0;
    int most_rows = 0;
};

struct Run {
    const dflash_attention_args* args;
    const Kernels* kernels;
    const Plan* plan;
    std::atomic<int>* unfinished;  // chunks left of each group
    int* packed;                   // group whose query each worker's scratch holds; -1: none
    float *partials, *scratch;
    int64_t partial_floats, scratch_floats;
};

int check_sizes(const dflash_attention_args& a) {
    if (!a.query || !a.output || !a.key || !a.value || !a.block_table || !a.query_start || !a.seq_lens)
        return fail("a pointer is null");
    if (a.dtype < 0 || a.dtype > DFLASH_FLOAT16) return fail("dtype: found code %d, needed 0, 1 or 2", a.dtype);
    if (a.kv_dtype < 0 || a.kv_dtype > DFLASH_FLOAT16)
        return fail("kv_dtype: found code %d, needed 0, 1 or 2", a.kv_dtype);
    if (a.kv_heads < 1 || a.heads < 1 || a.heads % a.kv_heads)
        return fail("heads: found %d, needed a multiple of kv_heads %d", a.heads, a.kv_heads);
    if (a.head_dim < 1 || a.block_size < 1)
        return fail("head_dim and block_size: found %d and %d, needed 1 or more", a.head_dim, a.block_size);
    if (a.window < 0) return fail("window: found %d, needed 0 (none) or more", a.window);
    return 0;
}

int add_request(const dflash_attention_args& a, int i, Plan& plan) {
    const int start = a.query_start[i], rows = a.query_start[i + 1] - start, length = a.seq_lens[i];
    if (start < 0 || rows < 0 || start + rows > a.rows)
        return fail("query_start of request %d: found %d to %d, needed to rise within %d rows", i, start, start + rows,
                    a.rows);
    if (rows == 0 || length == 0) return 0;
    if (length < rows) return fail("seq_lens of request %d: found %d, needed its %d rows or more", i, length, rows);
    const int anchor = length - rows;
    const int first = a.window > 0 && anchor - a.window + 1 > 0 ? anchor - a.window + 1 : 0;
    const int first_page = first / a.block_size, last_page = (length - 1) / a.block_size;
    if (last_page >= a.pages)
        return fail("block_table: found %d pages, needed %d for the length %d of request %d", a.pages, last_page + 1,
                    length, i);
    for (int page = first_page; page <= last_page; ++page) {
        const int block = a.block_table[i * a.block_table_stride + page];
        if (block < 0 || block >= a.blocks)
            return fail("block_table of request %d, page %d: found %d, needed a block below %d", i, page, block,
                        a.blocks);
    }
    const int keys = length - first;
    int chunks = keys <= kSmallChunk ? 1 : keys <= kChunk ? 2 : (keys + kChunk - 1) / kChunk;
    if (chunks > kMostChunks) chunks = kMostChunks;
    const int chunk_keys = ((keys + chunks - 1) / chunks + 7) / 8 * 8;
    chunks = (keys + chunk_keys - 1) / chunk_keys;
    for (int head = 0; head < a.kv_heads; ++head) {
        const int group = int(plan.groups.size());
        plan.groups.push_back({i, head, start, rows, anchor, first, keys, chunks, chunk_keys,
                               int64_t(plan.tasks.size())});
        for (int c = 0; c < chunks; ++c) plan.tasks.push_back({group, c});
    }
    plan.work += 2 * int64_t(keys) * rows * a.heads * a.head_dim;
    if (rows > plan.most_rows) plan.most_rows = rows;
    return 0;
}

std::size_t element_bytes(int dtype) { return dtype == DFLASH_FLOAT32 ? 4 : 2; }

void clear_rows(const dflash_attention_args& a, int begin, int end) {
    const std::size_t size = element_bytes(a.dtype);
    for (int r = begin; r < end; ++r)
        for (int h = 0; h < a.heads; ++h) {
            const int64_t at = r * a.output_row_stride + h * a.output_head_stride;
            __builtin_memset(static_cast<char*>(a.output) + at * int64_t(size), 0, size * a.head_dim);
        }
}

void run_task(void* context, int task, int worker) {
    const Run& run = *static_cast<const Run*>(context);
    const Task& t = run.plan->tasks[task];
    const AttentionGroup& g = run.plan->groups[t.group];
    float* scratch = run.scratch + worker * run.scratch_floats;
    float* partials = run.partials + g.first_partial * run.partial_floats;
    const bool packed = run.packed[worker] == t.group;
    run.packed[worker] = t.group;
    run.kernels->attention_chunk(*run.args, g, t.chunk, packed, scratch, partials + t.chunk * run.partial_floats);
    if (run.unfinished[t.group].fetch_sub(1, std::memory_order_acq_rel) == 1)
        run.kernels->attention_merge(*run.args, g, partials, run.partial_floats, scratch);
}

int64_t aligned(int64_t floats) { return (floats + 15) / 16 * 16; }

int attention(const dflash_attention_args& a) {
    if (check_sizes(a)) return 1;
    static thread_local Plan plan;
    plan.groups.clear();
    plan.tasks.clear();
    plan.work = plan.most_rows = 0;
    for (int i = 0; i < a.requests; ++i)
        if (add_request(a, i, plan)) return 1;

    int written = 0;
    for (const AttentionGroup& g : plan.groups) {
        if (g.kv_head > 0) continue;
        clear_rows(a, written, g.first_row);
        written = g.first_row + g.rows;
    }
    clear_rows(a, written, a.rows);
    if (plan.tasks.empty()) return 0;

    const int64_t useful = 1 + plan.work / kSerialWork;
    const int threads = int(useful < max_threads() ? useful : max_threads());
    const Kernels& k = kernels();
    Run run = {&a, &k, &plan, nullptr, nullptr, nullptr, nullptr, 0, 0};
    run.partial_floats = aligned(k.attention_partial(a, plan.most_rows));
    run.scratch_floats = aligned(k.attention_scratch(a, plan.most_rows));
    const int64_t partials = run.partial_floats * int64_t(plan.tasks.size());
    const int64_t counters = aligned(int64_t(plan.groups.size()));
    float* memory = arena(partials + run.scratch_floats * threads + counters + aligned(threads));
    run.partials = memory;
    run.scratch = memory + partials;
    run.unfinished = reinterpret_cast<std::atomic<int>*>(run.scratch + run.scratch_floats * threads);
    for (std::size_t g = 0; g < plan.groups.size(); ++g)
        new (&run.unfinished[g]) std::atomic<int>(plan.groups[g].chunks);
    run.packed = reinterpret_cast<int*>(run.unfinished) + counters;
    for (int i = 0; i < threads; ++i) run.packed[i] = -1;
    parallel_for(int(plan.tasks.size()), threads, run_task, &run);
    return 0;
}

}  // namespace
}  // namespace dflash

int dflash_attention(const dflash_attention_args* args) {
    try {
        return dflash::attention(*args);
    } catch (const std::bad_alloc&) {
        return dflash::fail("out of memory");
    }
}
