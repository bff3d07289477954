// SPDX-License-Identifier: Apache-2.0
// Drafter attention over one chunk of keys, for all query rows that share a kv head.
//
// The rows of the block times the query heads of the group lie along the vector lanes: scores and outputs are kept
// transposed, [key][lane] and [dim][lane], so that maxima, sums and masks need no work across lanes, K and V are
// read once for the whole group, and any head size fits. Both matrix products are then the same: a stored number
// times a vector of lanes, accumulated in registers.
#include "element.h"
#include "kernels.h"
#include "kernels_of_set.h"

namespace dflash {
namespace DFLASH_ISA {

constexpr int kMaxVecs = DFLASH_LANES == 4 ? 2 : 3;  // vectors of lanes in a panel
constexpr int kTile = DFLASH_LANES == 16 ? 8 : 4;    // keys or dims at once; kTile x kMaxVecs sums fit the registers
constexpr int kKeys = 64;                            // keys in scratch at once
constexpr float kNoScore = -1e30f;
constexpr float kLog2e = 1.44269504088896340736f;

static inline int lane_count(const dflash_attention_args& a, int rows) {
    return round_up(rows * (a.heads / a.kv_heads), kLanes);
}

struct Partial {
    float *peak, *sum, *out;  // [lanes], [lanes], [head_dim][lanes]
    Partial(float* at, int lanes) : peak(at), sum(at + lanes), out(at + 2 * lanes) {}
};

int64_t partial_floats(const dflash_attention_args& a, int rows) {
    return int64_t(lane_count(a, rows)) * (a.head_dim + 2);
}

struct Scratch {
    float *query, *key, *value, *score;  // [head_dim][lanes], [kKeys][head_dim] twice, [kKeys][kMaxVecs * kLanes]
    int32_t *lowest, *highest;           // [lanes]: key positions that the lane sees
    Scratch(float* at, int lanes, int head_dim) {
        score = at;
        query = score + kKeys * kMaxVecs * kLanes;
        lowest = reinterpret_cast<int32_t*>(query + int64_t(head_dim) * lanes);
        highest = lowest + lanes;
        key = reinterpret_cast<float*>(highest + lanes);
        value = key + kKeys * head_dim;
    }
};

int64_t scratch_floats(const dflash_attention_args& a, int rows) {
    return kKeys * (kMaxVecs * kLanes + 2 * int64_t(a.head_dim)) + int64_t(lane_count(a, rows)) * (a.head_dim + 2);
}

static void pack_query(const dflash_attention_args& a, const AttentionGroup& g, int lanes, const Scratch& s) {
    const int group = a.heads / a.kv_heads, used = g.rows * group;
    float* row = s.key;  // free until keys are read
    for (int m = 0; m < used; ++m) {
        const int64_t at = (g.first_row + m / group) * a.query_row_stride +
                           (g.kv_head * group + m % group) * a.query_head_stride;
        kReadRows[a.dtype](a.query, at, 0, 1, a.head_dim, row, 0);
        for (int d = 0; d < a.head_dim; ++d) s.query[int64_t(d) * lanes + m] = row[d] * (a.scale * kLog2e);
    }
    for (int d = 0; d < a.head_dim; ++d)
        for (int m = used; m < lanes; ++m) s.query[int64_t(d) * lanes + m] = 0.0f;
    const int last = g.anchor + g.rows - 1;
    for (int m = 0; m < lanes; ++m) {
        const int p = g.anchor + (m < used ? m / group : g.rows - 1);
        s.lowest[m] = a.window > 0 && p - a.window + 1 > 0 ? p - a.window + 1 : 0;
        int highest = a.causal ? p : last;
        if (a.window > 0 && a.window - 1 < highest - p) highest = p + a.window - 1;
        s.highest[m] = highest;
    }
}

// Keys [first, first + n) from their pages, padded with zero rows to a multiple of kTile.
static void gather(const dflash_attention_args& a, const AttentionGroup& g, int first, int n, const Scratch& s) {
    const int32_t* pages = a.block_table + g.request * a.block_table_stride;
    for (int done = 0; done < n;) {
        const int at = first + done, slot = at % a.block_size;
        const int run = n - done < a.block_size - slot ? n - done : a.block_size - slot;
        const int64_t base = pages[at / a.block_size] * a.kv_block_stride + g.kv_head * a.kv_head_stride +
                             slot * a.kv_slot_stride;
        const int64_t to = int64_t(done) * a.head_dim;
        kReadRows[a.kv_dtype](a.key, base, a.kv_slot_stride, run, a.head_dim, s.key + to, a.head_dim);
        kReadRows[a.kv_dtype](a.value, base, a.kv_slot_stride, run, a.head_dim, s.value + to, a.head_dim);
        done += run;
    }
    const int64_t from = int64_t(n) * a.head_dim, to = int64_t(round_up(n, kTile)) * a.head_dim;
    for (int64_t i = from; i < to; ++i) s.key[i] = s.value[i] = 0.0f;
}

// score[i][lane] = sum over d of key[i][d] * query[d][lane], for kTile keys.
template <int N>
static __attribute__((noinline)) void score_tile(const float* query, int lanes, const float* key, int head_dim, float* score) {
    Vec sum[kTile][N] = {};
    for (int d = 0; d < head_dim; ++d) {
        Vec q[N];
#pragma GCC unroll 4
        for (int j = 0; j < N; ++j) q[j] = load<Vec>(query + int64_t(d) * lanes + j * kLanes);
#pragma GCC unroll 8
        for (int i = 0; i < kTile; ++i)
#pragma GCC unroll 4
            for (int j = 0; j < N; ++j) sum[i][j] += q[j] * key[i * head_dim + d];
    }
#pragma GCC unroll 8
    for (int i = 0; i < kTile; ++i)
#pragma GCC unroll 4
        for (int j = 0; j < N; ++j) store(score + (i * N + j) * kLanes, sum[i][j]);
}

// out[i][lane] = out[i][lane] * fade[lane] + sum over keys of value[key][i] * weight[key][lane], for D dims.
template <int N, int D>
static __attribute__((noinline)) void value_tile(const float* weight, int keys, const float* value, int head_dim, const Vec* fade,
                              float* out, int lanes) {
    Vec sum[D][N];
#pragma GCC unroll 8
    for (int i = 0; i < D; ++i)
#pragma GCC unroll 4
        for (int j = 0; j < N; ++j) sum[i][j] = load<Vec>(out + int64_t(i) * lanes + j * kLanes) * fade[j];
    for (int k = 0; k < keys; ++k) {
        Vec w[N];
#pragma GCC unroll 4
        for (int j = 0; j < N; ++j) w[j] = load<Vec>(weight + (k * N + j) * kLanes);
#pragma GCC unroll 8
        for (int i = 0; i < D; ++i)
#pragma GCC unroll 4
            for (int j = 0; j < N; ++j) sum[i][j] += w[j] * value[int64_t(k) * head_dim + i];
    }
#pragma GCC unroll 8
    for (int i = 0; i < D; ++i)
#pragma GCC unroll 4
        for (int j = 0; j < N; ++j) store(out + int64_t(i) * lanes + j * kLanes, sum[i][j]);
}

// One block of keys against N vectors of lanes, from lane `lane` on.
template <int N>
static void panel(const Scratch& s, const Partial& p, int lane, int lanes, int first, int n, bool masked,
                  int head_dim) {
    const int padded = round_up(n, kTile);
    for (int i = 0; i < padded; i += kTile)
        score_tile<N>(s.query + lane, lanes, s.key + int64_t(i) * head_dim, head_dim, s.score + i * N * kLanes);
    if (masked) {
        for (int j = 0; j < N; ++j) {
            const IntVec lowest = load<IntVec>(s.lowest + lane + j * kLanes);
            const IntVec highest = load<IntVec>(s.highest + lane + j * kLanes);
            for (int i = 0; i < n; ++i) {
                float* at = s.score + (i * N + j) * kLanes;
                const IntVec key = IntVec{} + (first + i);
                store(at, ((key >= lowest) & (key <= highest)) ? load<Vec>(at) : broadcast(-__builtin_inff()));
            }
        }
    }
    Vec fade[N];
    for (int j = 0; j < N; ++j) {
        const Vec before = load<Vec>(p.peak + lane + j * kLanes);
        Vec peak = before;
        for (int i = 0; i < n; ++i) peak = larger(load<Vec>(s.score + (i * N + j) * kLanes), peak);
        fade[j] = exp2_nonpositive(before - peak);
        Vec sum = load<Vec>(p.sum + lane + j * kLanes) * fade[j];
        for (int i = 0; i < n; ++i) {
            float* at = s.score + (i * N + j) * kLanes;
            const Vec weight = exp2_nonpositive(load<Vec>(at) - peak);
            sum += weight;
            store(at, weight);
        }
        store(p.peak + lane + j * kLanes, peak);
        store(p.sum + lane + j * kLanes, sum);
    }
    int d = 0;
    for (; d + kTile <= head_dim; d += kTile)
        value_tile<N, kTile>(s.score, n, s.value + d, head_dim, fade, p.out + int64_t(d) * lanes + lane, lanes);
    for (; d < head_dim; ++d)
        value_tile<N, 1>(s.score, n, s.value + d, head_dim, fade, p.out + int64_t(d) * lanes + lane, lanes);
}

void attention_chunk(const dflash_attention_args& a, const AttentionGroup& g, int index, float* scratch, float* partial) {
    const int lanes = lane_count(a, g.rows);
    const Scratch s(scratch, lanes, a.head_dim);
    const Partial p(partial, lanes);
    pack_query(a, g, lanes, s);
    int lowest = 0, highest = g.anchor + g.rows - 1;
    for (int m = 0; m < lanes; ++m) {
        p.peak[m] = kNoScore;
        p.sum[m] = 0.0f;
        if (s.lowest[m] > lowest) lowest = s.lowest[m];
        if (s.highest[m] < highest) highest = s.highest[m];
    }
    for (int64_t i = 0; i < int64_t(a.head_dim) * lanes; ++i) p.out[i] = 0.0f;
    const int begin = index * g.chunk_keys;
    const int end = g.keys < begin + g.chunk_keys ? g.keys : begin + g.chunk_keys;
    for (int at = begin; at < end; at += kKeys) {
        const int n = end - at < kKeys ? end - at : kKeys, first = g.first_key + at;
        gather(a, g, first, n, s);
        const bool masked = first < lowest || first + n - 1 > highest;
        for (int lane = 0; lane < lanes;) {
            const int left = (lanes - lane) / kLanes, panels = (left + kMaxVecs - 1) / kMaxVecs;
            const int width = (left + panels - 1) / panels;
            if (width == 1) panel<1>(s, p, lane, lanes, first, n, masked, a.head_dim);
            if (width == 2) panel<2>(s, p, lane, lanes, first, n, masked, a.head_dim);
            if (width == 3) panel<kMaxVecs>(s, p, lane, lanes, first, n, masked, a.head_dim);
            lane += width * kLanes;
        }
    }
}

void attention_merge(const dflash_attention_args& a, const AttentionGroup& g, const float* partials, int64_t stride,
                  float* scratch) {
    const int lanes = lane_count(a, g.rows), group = a.heads / a.kv_heads;
    const Scratch s(scratch, lanes, a.head_dim);
    auto part = [&](int c) { return Partial(const_cast<float*>(partials) + c * stride, lanes); };
    for (int lane = 0; lane < lanes; lane += kLanes) {
        Vec sink = broadcast(kNoScore);
        if (a.sinks != nullptr)
            for (int j = 0; j < kLanes; ++j) sink[j] = a.sinks[g.kv_head * group + (lane + j) % group] * kLog2e;
        Vec peak = sink;
        for (int c = 0; c < g.chunks; ++c) peak = larger(load<Vec>(part(c).peak + lane), peak);
        Vec sum = a.sinks != nullptr ? exp2_nonpositive(sink - peak) : Vec{};
        for (int c = 0; c < g.chunks; ++c)
            sum += load<Vec>(part(c).sum + lane) * exp2_nonpositive(load<Vec>(part(c).peak + lane) - peak);
        for (int c = 0; c < g.chunks; ++c) {
            const Vec share = exp2_nonpositive(load<Vec>(part(c).peak + lane) - peak) / sum;
            for (int d = 0; d < a.head_dim; ++d) {
                float* to = s.query + int64_t(d) * lanes + lane;
                const Vec add = load<Vec>(part(c).out + int64_t(d) * lanes + lane) * share;
                store(to, c == 0 ? add : load<Vec>(to) + add);
            }
        }
    }
    float* row = s.key;
    for (int m = 0; m < g.rows * group; ++m) {
        for (int d = 0; d < a.head_dim; ++d) row[d] = s.query[int64_t(d) * lanes + m];
        const int64_t at = (g.first_row + m / group) * a.output_row_stride +
                           (g.kv_head * group + m % group) * a.output_head_stride;
        kWriteRow[a.dtype](row, a.head_dim, a.output, at);
    }
}

}  // namespace DFLASH_ISA
}  // namespace dflash
