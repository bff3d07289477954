// SPDX-License-Identifier: Apache-2.0
// Block-diffusion mask filling. A few hundred integers at most: one thread, no vectors.
#include "kernels.h"

namespace dflash {
namespace {

constexpr int64_t kPad = -1;      // a slot that nothing is written to
constexpr int64_t kNullPage = 0;  // vLLM's page that no request owns

int64_t get(const dflash_integers& array, int64_t i) { return integer(array.data, array.bytes, i); }

void put(const dflash_integers& array, int64_t i, int64_t value) {
    if (array.data == nullptr) return;
    if (array.bytes == 8)
        static_cast<int64_t*>(array.data)[i] = value;
    else
        static_cast<int32_t*>(array.data)[i] = int32_t(value);
}

void pad(const dflash_integers& array, int64_t from, int64_t to, int64_t value) {
    for (int64_t i = from; i < to; ++i) put(array, i, value);
}

struct Request {
    int index;
    int64_t start, end, valid_end;  // context rows
    int64_t state, after;           // position of the block's first row

    bool live() const { return valid_end > start; }
};

Request request_of(const dflash_mask_fill_args& a, int i) {
    Request r;
    r.index = i;
    r.start = get(a.query_start, i);
    r.end = get(a.query_start, i + 1);
    r.valid_end = r.end - (a.num_rejected.data ? get(a.num_rejected, i) : 0);
    r.state = a.request_state.data ? get(a.request_state, i) : i;
    r.after = r.live() ? get(a.positions, r.valid_end - 1) + 1 : 0;
    return r;
}

int check_request(const dflash_mask_fill_args& a, int i) {
    const int64_t start = get(a.query_start, i), end = get(a.query_start, i + 1);
    if (start < 0 || end < start || end > a.positions.size || end > a.out_context_positions.size)
        return fail("query_start_loc of request %d: found %lld to %lld, needed to rise within %d rows", i,
                    (long long)start, (long long)end, a.positions.size);
    for (int g = 0; g < a.group_count; ++g)
        if (end > a.groups[g].context_size)
            return fail("context_slots of group %d: found %d, needed %lld", g, a.groups[g].context_size,
                        (long long)end);
    const int64_t rejected = a.num_rejected.data ? get(a.num_rejected, i) : 0;
    if (rejected < 0)
        return fail("num_rejected of request %d: found %lld, needed 0 or more", i, (long long)rejected);
    const int64_t state = a.request_state.data ? get(a.request_state, i) : i;
    if (state < 0 || state >= a.states)
        return fail("request_state of request %d: found %lld, needed a row below %d", i, (long long)state, a.states);
    return 0;
}

int64_t slot_of(const dflash_mask_fill_group& g, int request, int64_t position) {
    const int64_t page = position / g.block_size;
    if (position < 0 || page >= g.pages) return kPad;
    const int64_t block = g.block_table[request * g.block_table_stride + page];
    return block == kNullPage ? kPad : block * g.block_size + position % g.block_size;
}

void fill_slots(const dflash_mask_fill_args& a, const dflash_mask_fill_group& g, const Request& r) {
    for (int64_t row = r.start; row < r.end; ++row)
        g.context_slots[row] = row < r.valid_end ? slot_of(g, r.index, get(a.positions, row)) : kPad;
    const int rows = 1 + a.drafts;
    for (int i = 0; i < rows; ++i) {
        const bool inside = r.live() && r.after + i < a.max_model_len;
        g.query_slots[int64_t(r.index) * rows + i] = inside ? slot_of(g, r.index, r.after + i) : kPad;
    }
}

int64_t anchor_of(const dflash_mask_fill_args& a, const Request& r) {
    const bool prefilling = a.num_sampled.data && get(a.num_sampled, r.index) <= 0;
    return get(prefilling ? a.prefill_tokens : a.anchor_tokens, r.state);
}

void fill_request(const dflash_mask_fill_args& a, const Request& r) {
    const int rows = 1 + a.drafts;
    const bool live = r.live();
    for (int64_t row = r.start; row < r.end; ++row)
        put(a.out_context_positions, row, row < r.valid_end ? get(a.positions, row) : 0);
    for (int i = 0; i < rows; ++i) {
        const int64_t row = int64_t(r.index) * rows + i, position = r.after + i;
        put(a.out_input_ids, row, !live ? 0 : i == 0 ? anchor_of(a, r) : a.mask_token);
        put(a.out_positions, row, !live ? 0 : position < a.max_model_len ? position : a.max_model_len - 1);
        if (a.out_is_padding) a.out_is_padding[row] = !live;
        if (i == 0) continue;
        const int64_t sample = int64_t(r.index) * a.drafts + i - 1;
        put(a.out_sample_rows, sample, live ? row : 0);
        put(a.out_sample_positions, sample, live ? position : 0);
        put(a.out_sample_requests, sample, live ? r.state : -1);
    }
    const int64_t length = r.after + rows < a.max_model_len ? r.after + rows : a.max_model_len;
    put(a.out_seq_lens, r.index, live ? length : 0);
    put(a.out_query_start, r.index, int64_t(r.index) * rows);
    if (a.temperature && a.out_temperature) a.out_temperature[r.state] = a.temperature[r.state];
    if (a.seeds && a.out_seeds) a.out_seeds[r.state] = a.seeds[r.state];
}

void fill_padding(const dflash_mask_fill_args& a) {
    const int64_t used = int64_t(a.requests) * (1 + a.drafts), samples = int64_t(a.requests) * a.drafts;
    pad(a.out_input_ids, used, a.padded_tokens, 0);
    pad(a.out_positions, used, a.padded_tokens, 0);
    for (int64_t i = used; a.out_is_padding && i < a.padded_tokens; ++i) a.out_is_padding[i] = 1;
    for (int g = 0; g < a.group_count; ++g)
        for (int64_t i = used; i < a.padded_tokens; ++i) a.groups[g].query_slots[i] = kPad;
    pad(a.out_sample_rows, samples, a.out_sample_rows.size, 0);
    pad(a.out_sample_positions, samples, a.out_sample_positions.size, 0);
    pad(a.out_sample_requests, samples, a.out_sample_requests.size, -1);
    pad(a.out_query_start, a.requests, a.out_query_start.size, used);
    pad(a.out_seq_lens, a.requests, a.out_seq_lens.size, 0);
}

}  // namespace
}  // namespace dflash

int dflash_mask_fill(const dflash_mask_fill_args* args) {
    using namespace dflash;
    const dflash_mask_fill_args& a = *args;
    for (int i = 0; i < a.requests; ++i)
        if (check_request(a, i)) return 1;
    for (int i = 0; i < a.requests; ++i) {
        const Request r = request_of(a, i);
        fill_request(a, r);
        for (int g = 0; g < a.group_count; ++g) fill_slots(a, a.groups[g], r);
    }
    fill_padding(a);
    return 0;
}
