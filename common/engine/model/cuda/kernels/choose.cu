// Choosing tokens by the law of choice (docs/law-of-choice.md), with the CPU's results: the noise
// is its operations one by one, filters count in whole numbers, and the best score is the largest
// of keys that no two tokens share. So blocks may share a row in any way.
//
// A kernel finds the largest logit of each row; at temperature 0 that is the choice. Where rows
// have filters, a block per row finds what they leave: the last place, by value and then by token,
// up to which a count (top_k) or a sum of weights (top_p) reaches what is wanted. Then the noise of
// the tokens that it can let win is added, and no other (common/engine/sampling/perturbed.h).
// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/kernels/device.h"
#include "common/engine/model/cuda/kernels/kernels.h"
#include "common/engine/sampling/noise.h"
#include "common/engine/sampling/philox.h"

namespace outrider::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kChunk = 4096;  // tokens of a block; a multiple of what a random block serves
constexpr int kFilterThreads = 512;
constexpr int kDigitBits = 11;
constexpr int kBuckets = 1 << kDigitBits;
constexpr float kLargest = 0x1.fffffep+127f;
constexpr float kNever = -__builtin_inff();

// Cleans a logit as the CPU does: NaN is -infinity, +infinity the largest number.
OUTRIDER_DEVICE float cleaned(float x) {
  if (!(x == x)) return kNever;
  return smaller(x, kLargest);
}

// A key like the CPU's SelectKey (common/engine/sampling/select.h): larger for larger values, then
// for lower tokens.
OUTRIDER_DEVICE std::uint32_t ordered(float value) {
  const std::uint32_t bits = as_bits(add(value, 0.0f));
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
OUTRIDER_DEVICE std::uint64_t key_of(float value, std::uint32_t token) {
  return static_cast<std::uint64_t>(ordered(value)) << 32 | (0xffffffffu - token);
}
OUTRIDER_DEVICE float value_of(std::uint64_t key) {
  const auto bits = static_cast<std::uint32_t>(key >> 32);
  return as_float((bits & 0x80000000u) != 0 ? bits ^ 0x80000000u : ~bits);
}
OUTRIDER_DEVICE std::uint32_t token_of(std::uint64_t key) {
  return 0xffffffffu - static_cast<std::uint32_t>(key);
}

// Into a row's best of all blocks.
OUTRIDER_DEVICE void offer(std::uint64_t key, std::uint64_t* best) {
  for (int mask = 16; mask > 0; mask /= 2) key = larger(key, shuffle_xor(key, mask));
  if (thread_index() % kWarpLanes == 0) atomic_max(best, key);
}

OUTRIDER_KERNEL OUTRIDER_BOUNDS(kThreads, 4) find_largest(OUTRIDER_ARGUMENT TokenChoices p) {
  const int row = block_y(), first = block_x() * kChunk;
  if (!p.rows[row].is_wanted) return;
  const float* logits = p.logits + row * p.stride;
  const int end = smaller(first + kChunk, p.tokens);
  std::uint64_t best = 0;
  for (int token = first + thread_index(); token < end; token += kThreads) {
    const float logit = cleaned(logits[token]);
    if (logit > kNever) best = larger(best, key_of(logit, static_cast<std::uint32_t>(token)));
  }
  offer(best, &p.found[row].largest);
}

// Natural logarithm of a positive normal number, as the CPU's vector_log().
OUTRIDER_DEVICE float logarithm(float x) {
  const auto bits = static_cast<std::int32_t>(as_bits(x));
  const std::int32_t exponent = (bits - 0x3f3504f3) >> 23;
  const float m = as_float(static_cast<std::uint32_t>(bits - (exponent << 23)));
  const auto e = static_cast<float>(exponent);
  const float f = add(m, -1.0f);
  const float s = divide(f, add(f, 2.0f));
  const float z = multiply(s, s);
  float r = 0x1.ddd848p-3f;
  r = fused(r, z, 0x1.245c0ep-2f);
  r = fused(r, z, 0x1.9999ecp-2f);
  r = multiply(z, fused(r, z, 0x1.555556p-1f));
  const float half_square = multiply(multiply(f, f), 0.5f);
  const float low = fused(s, add(half_square, r), multiply(e, 0x1.0bfbe8p-15f));
  return fused(e, 0x1.62ep-1f, add(f, -add(half_square, -low)));
}

// The noise of a random word, as the CPU's gumbel() (common/engine/sampling/noise-inl.h).
OUTRIDER_DEVICE float gumbel(std::uint32_t word) {
  const float sum = fused(static_cast<float>(word >> 16), 65536.0f,
                          add(static_cast<float>(word & 0xffffu), 0.5f));
  const float w = smaller(multiply(sum, 0x1p-32f), 1.0f - 0x1p-24f);
  const float u = add(1.0f, -w), rest = add(1.0f, -u);
  const float mended = rest == 0.0f ? w : multiply(-logarithm(u), divide(w, rest));
  return -logarithm(mended);
}

struct Words {
  std::uint32_t of[4];
};

// Four words of sixty-four tokens' sixteen blocks (common/engine/sampling/noise.h), by philox().
OUTRIDER_DEVICE Words random_words(const RowChoice& row, std::uint32_t block) {
  const auto position = static_cast<std::uint64_t>(row.position);
  std::uint32_t c[4] = {block, 0, static_cast<std::uint32_t>(position),
                        static_cast<std::uint32_t>(position >> 32)};
  auto key0 = static_cast<std::uint32_t>(row.seed);
  auto key1 = static_cast<std::uint32_t>(row.seed >> 32);
  OUTRIDER_UNROLLED
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const std::uint64_t product0 = static_cast<std::uint64_t>(kPhiloxMultiplier0) * c[0];
    const std::uint64_t product1 = static_cast<std::uint64_t>(kPhiloxMultiplier1) * c[2];
    const std::uint32_t next[4] = {static_cast<std::uint32_t>(product1 >> 32) ^ c[1] ^ key0,
                                   static_cast<std::uint32_t>(product1),
                                   static_cast<std::uint32_t>(product0 >> 32) ^ c[3] ^ key1,
                                   static_cast<std::uint32_t>(product0)};
    for (int i = 0; i < 4; ++i) c[i] = next[i];
    key0 += kPhiloxKeyStep0;
    key1 += kPhiloxKeyStep1;
  }
  return {{c[0], c[1], c[2], c[3]}};
}

// A row's logits as scores without noise, at most 0.
struct Scores {
  const float* logits;
  float maximum, temperature;

  OUTRIDER_DEVICE Scores(const TokenChoices& p, int row)
      : logits(p.logits + row * p.stride),
        maximum(value_of(p.found[row].largest)),
        temperature(p.rows[row].temperature) {}

  OUTRIDER_DEVICE float of(int token) const {
    return divide(add(cleaned(logits[token]), -maximum), temperature);
  }
};

// Where a token stands among others, the best at 0: by its logit, or by its score.
OUTRIDER_DEVICE std::uint64_t place_of(std::uint32_t depth, int token) {
  return static_cast<std::uint64_t>(depth) << 32 | static_cast<std::uint32_t>(token);
}
OUTRIDER_DEVICE std::uint64_t place_by_logit(float logit, int token) {
  return place_of(~ordered(logit), token);
}
OUTRIDER_DEVICE std::uint64_t place_by_score(float score, int token) {
  return place_of(as_bits(score) & 0x7fffffffu, token);
}

// A weight of 0 to 1 in units of 2^-40, half to even, as the CPU's weight_units().
OUTRIDER_DEVICE std::uint64_t weight_units(float weight) {
  const std::uint32_t bits = as_bits(weight);
  const int shift = static_cast<int>(bits >> 23) - 150 + 40;
  const std::uint64_t digits = (bits & 0x7fffffu) | 0x800000u;
  if (shift >= 0) return digits << shift;
  if (shift < -25) return 0;
  const std::uint64_t whole = digits >> -shift;
  const std::uint64_t rest = digits - (whole << -shift), half = std::uint64_t{1} << (-shift - 1);
  return whole + (rest > half || (rest == half && (whole & 1u) != 0) ? 1 : 0);
}

// Shared memory of a block that filters a row.
struct Buckets {
  std::uint64_t sums[kBuckets];
  std::uint64_t parts[kWarpLanes];  // each of a 32nd of the buckets
  // The bucket that was found, what is in it, and the sum of what is before it.
  int found;
  std::uint64_t inside, before;
};

// Filters a row in one block.
struct RowFilter {
  const TokenChoices& p;
  const int row;
  const RowChoice& choice;
  const Scores scores;
  Buckets& buckets;

  // The place behind the last one that is kept when places are taken from 0 on until the sum of
  // amount() reaches `wanted`; it is reached. is_in(token): others do not count. depth(token): the
  // upper half of its place. Tokens of one depth have one amount.
  template <class IsIn, class Depth, class Amount>
  OUTRIDER_DEVICE std::uint64_t end_of(std::uint64_t wanted, const IsIn& is_in, const Depth& depth,
                                       const Amount& amount) const {
    std::uint32_t border = 0;
    std::uint64_t left = wanted, in_bucket = 0;
    for (int bits = 32; bits > 0;) {
      const int digit = smaller(bits, kDigitBits);
      bits -= digit;
      fill([&](int token, std::uint32_t& bucket) {
        if (!is_in(token)) return std::uint64_t{0};
        const std::uint32_t at = depth(token);
        if (bits + digit < 32 && at >> (bits + digit) != border) return std::uint64_t{0};
        bucket = at >> bits & ((1u << digit) - 1);
        return amount(token);
      });
      find(left);
      in_bucket = buckets.inside;
      left -= buckets.before;
      border = border << digit | static_cast<std::uint32_t>(buckets.found);
    }
    return place_of(border, end_of_ties(border, left, in_bucket, is_in, depth, amount));
  }

  // The token behind the last one of this depth that is needed.
  template <class IsIn, class Depth, class Amount>
  OUTRIDER_DEVICE int end_of_ties(std::uint32_t border, std::uint64_t left, std::uint64_t in_all,
                                  const IsIn& is_in, const Depth& depth,
                                  const Amount& amount) const {
    if (left == in_all) return p.tokens;
    const auto is_tied = [&](int token) { return is_in(token) && depth(token) == border; };
    int first = 0;
    for (int bits = 2 * kDigitBits; bits > 0;) {
      bits -= kDigitBits;
      fill([&](int token, std::uint32_t& bucket) {
        if (!is_tied(token)) return std::uint64_t{0};
        if (token >> (bits + kDigitBits) != first) return std::uint64_t{0};
        bucket = static_cast<std::uint32_t>(token >> bits & (kBuckets - 1));
        return amount(token);
      });
      find(left);
      left -= buckets.before;
      first = first << kDigitBits | buckets.found;
    }
    return first + 1;
  }

  // Adds up what each token gives to its bucket.
  template <class Give>
  OUTRIDER_DEVICE void fill(const Give& give) const {
    for (int i = thread_index(); i < kBuckets; i += kFilterThreads) buckets.sums[i] = 0;
    sync_threads();
    for (int token = thread_index(); token < p.tokens; token += kFilterThreads) {
      std::uint32_t bucket = 0;
      const std::uint64_t amount = give(token, bucket);
      if (amount > 0) atomic_add(&buckets.sums[bucket], amount);
    }
    sync_threads();
    constexpr int kEach = kBuckets / kWarpLanes;
    if (thread_index() < kWarpLanes) {
      std::uint64_t sum = 0;
      for (int i = 0; i < kEach; ++i) sum += buckets.sums[thread_index() * kEach + i];
      buckets.parts[thread_index()] = sum;
    }
    sync_threads();
  }

  // The bucket in which the sum from the first one on reaches `wanted`.
  OUTRIDER_DEVICE void find(std::uint64_t wanted) const {
    if (thread_index() == 0) {
      std::uint64_t before = 0;
      int part = 0;
      while (before + buckets.parts[part] < wanted) before += buckets.parts[part++];
      int at = part * (kBuckets / kWarpLanes);
      while (before + buckets.sums[at] < wanted) before += buckets.sums[at++];
      buckets.found = at;
      buckets.inside = buckets.sums[at];
      buckets.before = before;
    }
    sync_threads();
  }

  // The total of all that fill() added up.
  OUTRIDER_DEVICE std::uint64_t total() const {
    std::uint64_t sum = 0;
    for (int i = 0; i < kWarpLanes; ++i) sum += buckets.parts[i];
    return sum;
  }

  OUTRIDER_DEVICE std::uint64_t end_of_top_k() const {
    if (choice.top_k >= p.tokens) return 0;
    return end_of(
        static_cast<std::uint64_t>(choice.top_k), [](int /*token*/) { return true; },
        [&](int token) { return ~ordered(cleaned(scores.logits[token])); },
        [](int /*token*/) { return std::uint64_t{1}; });
  }

  OUTRIDER_DEVICE std::uint64_t end_of_top_p(std::uint64_t by_logit) const {
    const auto is_in = [&](int token) {
      return by_logit == 0 || place_by_logit(cleaned(scores.logits[token]), token) < by_logit;
    };
    const auto units = [&](int token) { return weight_units(exponential(scores.of(token))); };
    fill([&](int token, std::uint32_t& /*bucket*/) { return is_in(token) ? units(token) : 0; });
    const double share = static_cast<double>(choice.top_p) * static_cast<double>(total());
    const auto wanted = larger(static_cast<std::uint64_t>(ceil(share)), std::uint64_t{1});
    return end_of(
        wanted, is_in, [&](int token) { return as_bits(scores.of(token)) & 0x7fffffffu; }, units);
  }
};

OUTRIDER_KERNEL OUTRIDER_BOUNDS(kFilterThreads, 1) filter_row(OUTRIDER_ARGUMENT TokenChoices p) {
  const int row = block_x();
  const RowChoice& choice = p.rows[row];
  FoundChoice& found = p.found[row];
  if (!choice.is_wanted || choice.temperature == 0.0f || found.largest == 0) return;
  const RowFilter filter{p, row, choice, Scores(p, row),
                         *reinterpret_cast<Buckets*>(shared_memory())};
  std::uint64_t by_logit = 0, by_score = 0;
  if (choice.top_k > 0) by_logit = filter.end_of_top_k();
  if (choice.top_p < 1.0f) by_score = filter.end_of_top_p(by_logit);
  if (thread_index() > 0) return;
  found.end_by_logit = by_logit;
  found.end_by_score = by_score;
}

OUTRIDER_KERNEL OUTRIDER_BOUNDS(kThreads, 4) choose_token(OUTRIDER_ARGUMENT TokenChoices p) {
  const int row = block_y(), first = block_x() * kChunk;
  const RowChoice& choice = p.rows[row];
  FoundChoice& found = p.found[row];
  if (!choice.is_wanted || found.largest == 0) return;
  if (choice.temperature == 0.0f) {
    if (first == 0 && thread_index() == 0) found.best = found.largest;
    return;
  }
  const Scores scores(p, row);
  const auto is_kept = [&](float score, int token) {
    if (found.end_by_score > 0 && place_by_score(score, token) >= found.end_by_score) return false;
    if (found.end_by_logit > 0 &&
        place_by_logit(cleaned(scores.logits[token]), token) >= found.end_by_logit) {
      return false;
    }
    return choice.min_p <= 0.0f || exponential(score) >= choice.min_p;
  };
  // The likeliest token's score is 0 without noise. No token below it with noise is the best.
  auto& bar = *reinterpret_cast<float*>(shared_memory());
  if (thread_index() == 0) {
    const std::uint32_t token = token_of(found.largest);
    const Words words = random_words(choice, token / 64 * 16 + token % 16);
    bar = is_kept(0.0f, static_cast<int>(token)) ? gumbel(words.of[token / 16 % 4]) : kNever;
  }
  sync_threads();
  std::uint64_t best = 0;
  for (int block = thread_index(); block < kChunk / 4; block += kThreads) {
    const int token = first + block / 16 * 64 + block % 16;
    float score[4];
    bool can_win = false;
    for (int w = 0; w < 4; ++w) {
      score[w] = token + 16 * w < p.tokens ? scores.of(token + 16 * w) : kNever;
      can_win = can_win || add(score[w], kLargestNoise) >= bar;
    }
    if (!can_win) continue;
    const Words words = random_words(choice, static_cast<std::uint32_t>(first / 4 + block));
    for (int w = 0; w < 4; ++w) {
      if (!(add(score[w], kLargestNoise) >= bar) || !is_kept(score[w], token + 16 * w)) continue;
      const float sum = add(score[w], gumbel(words.of[w]));
      best = larger(best, key_of(sum, static_cast<std::uint32_t>(token + 16 * w)));
    }
  }
  offer(best, &found.best);
}

}  // namespace

void choose_tokens(const TokenChoices& choices, std::int64_t rows, bool has_filters,
                   Stream stream) {
  const auto chunks = static_cast<unsigned>((choices.tokens + kChunk - 1) / kChunk);
  const auto all = static_cast<unsigned>(rows);
  launch<&find_largest>({chunks, all, 1, kThreads, 0}, stream, choices);
  if (has_filters) {
    launch<&filter_row>({all, 1, 1, kFilterThreads, sizeof(Buckets)}, stream, choices);
  }
  launch<&choose_token>({chunks, all, 1, kThreads, sizeof(float)}, stream, choices);
}

}  // namespace outrider::cuda
