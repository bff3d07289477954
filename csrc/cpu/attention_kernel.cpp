// SPDX-License-Identifier: Apache-2.0
// Drafter attention over one chunk of keys, for all query rows that share a kv head.
//
// The rows of the block times the query heads of the group are `rows` of one tile, so K and V are read once for the
// whole group. Scores are kept transposed, [key][row], with rows along the vector lanes: maxima, sums and masks need no
// work across lanes, and any head size fits. Outputs are [row][dim] with dims along the lanes. In both products one
// factor is a vector and the other a number broadcast from memory; sums stay in registers.
#include "element.h"
#include "kernels.h"
#include "kernels_of_set.h"

namespace dflash {
namespace DFLASH_ISA {

constexpr int kMaxVecs = DFLASH_LANES == 4 ? 2 : 3;  // vectors of rows in a panel of scores
constexpr int kKeyTile = DFLASH_LANES == 16 ? 8 : 4;  // keys at once: kKeyTile x kMaxVecs sums fit the registers
constexpr int kDimVecs = DFLASH_LANES == 16 ? 4 : 2;  // vectors of dims, and rows, at once in the output: the same
constexpr int kRowTile = DFLASH_LANES == 4 ? 4 : 6;
constexpr int kKeys = 64;                             // keys in scratch at once
constexpr float kNoScore = -1e30f;
constexpr float kLog2e = 1.44269504088896340736f;

static inline int row_count(const dflash_attention_args& a, int rows) { return rows * (a.heads / a.kv_heads); }

// Rows and dims, padded to whole vectors.
static inline int lane_count(const dflash_attention_args& a, int rows) {
    return round_up(row_count(a, rows), kLanes);
}

static inline int dim_count(const dflash_attention_args& a) { return round_up(a.head_dim, kLanes); }

struct Partial {
    float *peak, *sum, *out;  // [lanes], [lanes], [rows][dims]
    Partial(float* at, int lanes) : peak(at), sum(at + lanes), out(at + 2 * lanes) {}
};

int64_t partial_floats(const dflash_attention_args& a, int rows) {
    return 2 * int64_t(lane_count(a, rows)) + int64_t(row_count(a, rows)) * dim_count(a);
}

struct Scratch {
    float *score, *fade;        // [kKeys][kMaxVecs * kLanes], [lanes]
    float *query, *key, *value;  // [head_dim][lanes], [kKeys][dims] twice
    int32_t *lowest, *highest;  // [lanes]: key positions that the row sees
    Scratch(float* at, int lanes, int head_dim, int dims) {
        score = at;
        fade = score + kKeys * kMaxVecs * kLanes;
        query = fade + lanes;
        key = query + int64_t(head_dim) * lanes;
        value = key + kKeys * dims;
        lowest = reinterpret_cast<int32_t*>(value + kKeys * dims);
        highest = lowest + lanes;
    }
};

int64_t scratch_floats(const dflash_attention_args& a, int rows) {
    return kKeys * (kMaxVecs * kLanes + 2 * int64_t(dim_count(a))) + int64_t(lane_count(a, rows)) * (a.head_dim + 3);
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

// Keys [first, first + n) from their pages, padded with zero rows to a multiple of kKeyTile.
static void gather(const dflash_attention_args& a, const AttentionGroup& g, int first, int n, const Scratch& s) {
    const int dims = dim_count(a);
    const int32_t* pages = a.block_table + g.request * a.block_table_stride;
    for (int done = 0; done < n;) {
        const int at = first + done, slot = at % a.block_size;
        const int run = n - done < a.block_size - slot ? n - done : a.block_size - slot;
        const int64_t base = pages[at / a.block_size] * a.kv_block_stride + g.kv_head * a.kv_head_stride +
                             slot * a.kv_slot_stride;
        const int64_t to = int64_t(done) * dims;
        kReadRows[a.kv_dtype](a.key, base, a.kv_slot_stride, run, a.head_dim, s.key + to, dims);
        kReadRows[a.kv_dtype](a.value, base, a.kv_slot_stride, run, a.head_dim, s.value + to, dims);
        done += run;
    }
    for (int64_t i = int64_t(n) * dims; i < int64_t(round_up(n, kKeyTile)) * dims; ++i) s.key[i] = 0.0f;
}

// score[i][row] = sum over d of key[i][d] * query[d][row], for kKeyTile keys.
template <int N>
static __attribute__((noinline)) void score_tile(const float* query, int lanes, const float* key, int dims,
                                                 int head_dim, float* score) {
    Vec sum[kKeyTile][N] = {};
    for (int d = 0; d < head_dim; ++d) {
        Vec q[N];
#pragma GCC unroll 4
        for (int j = 0; j < N; ++j) q[j] = load<Vec>(query + int64_t(d) * lanes + j * kLanes);
#pragma GCC unroll 8
        for (int i = 0; i < kKeyTile; ++i)
#pragma GCC unroll 4
            for (int j = 0; j < N; ++j) sum[i][j] += q[j] * key[i * dims + d];
    }
#pragma GCC unroll 8
    for (int i = 0; i < kKeyTile; ++i)
#pragma GCC unroll 4
        for (int j = 0; j < N; ++j) store(score + (i * N + j) * kLanes, sum[i][j]);
}

// out[r][d] = out[r][d] * fade[r] + sum over keys of weight[key][r] * value[key][d], for R rows and D vectors of dims.
template <int R, int D>
static __attribute__((noinline)) void value_tile(const float* weight, int weight_stride, int keys, const float* value,
                                                 int dims, const float* fade, float* out) {
    Vec sum[R][D];
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
        for (int j = 0; j < D; ++j) sum[i][j] = load<Vec>(out + int64_t(i) * dims + j * kLanes) * fade[i];
    for (int k = 0; k < keys; ++k) {
        Vec v[D];
#pragma GCC unroll 4
        for (int j = 0; j < D; ++j) v[j] = load<Vec>(value + int64_t(k) * dims + j * kLanes);
#pragma GCC unroll 8
        for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
            for (int j = 0; j < D; ++j) sum[i][j] += v[j] * weight[int64_t(k) * weight_stride + i];
    }
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
        for (int j = 0; j < D; ++j) store(out + int64_t(i) * dims + j * kLanes, sum[i][j]);
}

template <int D>
static void value_rows(const float* weight, int weight_stride, int keys, const float* value, int dims,
                       const float* fade, float* out, int rows) {
    int r = 0;
    for (; r + kRowTile <= rows; r += kRowTile)
        value_tile<kRowTile, D>(weight + r, weight_stride, keys, value, dims, fade + r, out + int64_t(r) * dims);
    for (; r + 2 <= rows; r += 2)
        value_tile<2, D>(weight + r, weight_stride, keys, value, dims, fade + r, out + int64_t(r) * dims);
    if (r < rows) value_tile<1, D>(weight + r, weight_stride, keys, value, dims, fade + r, out + int64_t(r) * dims);
}

// Scores of N vectors of rows become weights under the running maximum; s.fade is what earlier sums shrink by.
template <int N>
static void softmax(const Scratch& s, const Partial& p, int row, int first, int n, bool masked) {
    for (int j = 0; j < N; ++j) {
        const int at = row + j * kLanes;
        float* score = s.score + j * kLanes;
        if (masked) {
            const IntVec lowest = load<IntVec>(s.lowest + at), highest = load<IntVec>(s.highest + at);
            for (int i = 0; i < n; ++i) {
                const IntVec key = IntVec{} + (first + i), seen = (key >= lowest) & (key <= highest);
                float* x = score + i * N * kLanes;
                store(x, seen ? load<Vec>(x) : broadcast(-__builtin_inff()));
            }
        }
        const Vec before = load<Vec>(p.peak + at);
        Vec peak = before;
        for (int i = 0; i < n; ++i) peak = larger(load<Vec>(score + i * N * kLanes), peak);
        const Vec fade = exp2_nonpositive(before - peak);
        Vec sum = load<Vec>(p.sum + at) * fade;
        for (int i = 0; i < n; ++i) {
            const Vec weight = exp2_nonpositive(load<Vec>(score + i * N * kLanes) - peak);
            sum += weight;
            store(score + i * N * kLanes, weight);
        }
        store(p.peak + at, peak);
        store(p.sum + at, sum);
        store(s.fade + at, fade);
    }
}

// One block of keys against N vectors of rows, from `row` on, of which `rows` are not padding.
template <int N>
static void panel(const dflash_attention_args& a, const Scratch& s, const Partial& p, int row, int rows, int lanes,
                  int first, int n, bool masked) {
    const int dims = dim_count(a);
    for (int i = 0; i < n; i += kKeyTile)
        score_tile<N>(s.query + row, lanes, s.key + int64_t(i) * dims, dims, a.head_dim, s.score + i * N * kLanes);
    softmax<N>(s, p, row, first, n, masked);
    for (int d = 0; d < dims;) {
        const int left = (dims - d) / kLanes, panels = (left + kDimVecs - 1) / kDimVecs;
        const int width = (left + panels - 1) / panels;
        const float* value = s.value + d;
        float* out = p.out + int64_t(row) * dims + d;
        if (width == 1) value_rows<1>(s.score, N * kLanes, n, value, dims, s.fade + row, out, rows);
        if (width == 2) value_rows<2>(s.score, N * kLanes, n, value, dims, s.fade + row, out, rows);
#if DFLASH_LANES == 16
        if (width == 3) value_rows<3>(s.score, N * kLanes, n, value, dims, s.fade + row, out, rows);
        if (width == 4) value_rows<4>(s.score, N * kLanes, n, value, dims, s.fade + row, out, rows);
#endif
        d += width * kLanes;
    }
}

void attention_chunk(const dflash_attention_args& a, const AttentionGroup& g, int index, bool packed, float* scratch,
                     float* partial) {
    const int lanes = lane_count(a, g.rows), rows = row_count(a, g.rows), dims = dim_count(a);
    const Scratch s(scratch, lanes, a.head_dim, dims);
    const Partial p(partial, lanes);
    if (!packed) pack_query(a, g, lanes, s);
    int lowest = 0, highest = g.anchor + g.rows - 1;
    for (int m = 0; m < lanes; ++m) {
        p.peak[m] = kNoScore;
        p.sum[m] = 0.0f;
        if (s.lowest[m] > lowest) lowest = s.lowest[m];
        if (s.highest[m] < highest) highest = s.highest[m];
    }
    for (int64_t i = 0; i < int64_t(rows) * dims; ++i) p.out[i] = 0.0f;
    const int begin = index * g.chunk_keys;
    const int end = g.keys < begin + g.chunk_keys ? g.keys : begin + g.chunk_keys;
    for (int at = begin; at < end; at += kKeys) {
        const int n = end - at < kKeys ? end - at : kKeys, first = g.first_key + at;
        gather(a, g, first, n, s);
        const bool masked = first < lowest || first + n - 1 > highest;
        for (int row = 0; row < lanes;) {
            const int left = (lanes - row) / kLanes, panels = (left + kMaxVecs - 1) / kMaxVecs;
            const int width = (left + panels - 1) / panels;
            const int real = rows - row < width * kLanes ? rows - row : width * kLanes;
            if (width == 1) panel<1>(a, s, p, row, real, lanes, first, n, masked);
            if (width == 2) panel<2>(a, s, p, row, real, lanes, first, n, masked);
            if (width == 3) panel<kMaxVecs>(a, s, p, row, real, lanes, first, n, masked);
            row += width * kLanes;
        }
    }
}

void attention_merge(const dflash_attention_args& a, const AttentionGroup& g, float* partials, int64_t stride,
                     float* scratch) {
    const int lanes = lane_count(a, g.rows), rows = row_count(a, g.rows), dims = dim_count(a);
    const int group = a.heads / a.kv_heads;
    auto part = [&](int c) { return Partial(partials + c * stride, lanes); };
    for (int lane = 0; lane < lanes; lane += kLanes) {
        Vec sink = broadcast(kNoScore);
        if (a.sinks != nullptr)
            for (int j = 0; j < kLanes; ++j) sink[j] = a.sinks[g.kv_head * group + (lane + j) % group] * kLog2e;
        Vec peak = sink;
        for (int c = 0; c < g.chunks; ++c) peak = larger(load<Vec>(part(c).peak + lane), peak);
        Vec sum = a.sinks != nullptr ? exp2_nonpositive(sink - peak) : Vec{};
        for (int c = 0; c < g.chunks; ++c) {
            const Vec share = exp2_nonpositive(load<Vec>(part(c).peak + lane) - peak);
            sum += load<Vec>(part(c).sum + lane) * share;
            store(part(c).peak + lane, share);
        }
        for (int c = 0; c < g.chunks; ++c) store(part(c).peak + lane, load<Vec>(part(c).peak + lane) / sum);
    }
    float* merged = scratch;  // where scores were
    for (int m = 0; m < rows; ++m) {
        for (int d = 0; d < dims; d += kLanes) {
            Vec x = {};
            for (int c = 0; c < g.chunks; ++c) x += load<Vec>(part(c).out + int64_t(m) * dims + d) * part(c).peak[m];
            store(merged + d, x);
        }
        const int64_t at = (g.first_row + m / group) * a.output_row_stride +
                           (g.kv_head * group + m % group) * a.output_head_stride;
        kWriteRow[a.dtype](merged, a.head_dim, a.output, at);
    }
}

}  // namespace DFLASH_ISA
}  // namespace dflash
