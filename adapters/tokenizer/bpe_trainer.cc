// SPDX-License-Identifier: Apache-2.0
#include "adapters/tokenizer/bpe_trainer.h"

#include <array>
#include <map>
#include <queue>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "common/engine/text/pipeline/byte_level.h"
#include "common/engine/text/pipeline/split_pattern.h"

namespace outrider {
namespace {

using Pair = std::pair<std::int32_t, std::int32_t>;

constexpr std::int32_t kNumBytes = 256;

// GPT-2's order: first the bytes that are printable characters of Latin-1, then the others.
std::array<std::uint8_t, kNumBytes> byte_order() {
  std::array<std::uint8_t, kNumBytes> order{};
  std::size_t next = 0;
  for (const bool printable : {true, false}) {
    for (int byte = 0; byte < kNumBytes; ++byte) {
      const bool is_printable =
          byte_to_character(static_cast<std::uint8_t>(byte)) == static_cast<char32_t>(byte);
      if (is_printable == printable) order[next++] = static_cast<std::uint8_t>(byte);
    }
  }
  return order;
}

struct Word {
  std::vector<std::int32_t> symbols;
  std::int64_t count = 0;
};

struct PairHash {
  std::size_t operator()(const Pair& pair) const {
    return std::hash<std::uint64_t>()((static_cast<std::uint64_t>(pair.first) << 32) |
                                      static_cast<std::uint32_t>(pair.second));
  }
};

// The words of a text with their pair counts, updated at each merge.
class MergeTable final {
 public:
  explicit MergeTable(std::vector<Word> words) : words_(std::move(words)) {
    for (std::size_t i = 0; i < words_.size(); ++i) count_pairs(i, +1);
    for (const auto& [pair, use] : pairs_) heap_.push({use.count, pair});
  }

  // The most frequent pair, if any occurs at least twice.
  bool best(Pair& pair) {
    while (!heap_.empty()) {
      const Candidate top = heap_.top();
      if (pairs_[top.pair].count == top.count) {
        pair = top.pair;
        return top.count >= 2;
      }
      heap_.pop();  // outdated; the current count was pushed when it changed
    }
    return false;
  }

  void merge(const Pair& pair, std::int32_t merged) {
    changed_.clear();
    const std::unordered_set<std::size_t> places = std::move(pairs_[pair].words);
    for (const std::size_t index : places) {
      count_pairs(index, -1);
      replace(words_[index].symbols, pair, merged);
      count_pairs(index, +1);
    }
    for (const Pair& one : changed_) heap_.push({pairs_[one].count, one});
  }

 private:
  struct PairUse {
    std::int64_t count = 0;
    std::unordered_set<std::size_t>
        words;  // every word that holds the pair, perhaps also words that no longer do
  };
  struct Candidate {
    std::int64_t count;
    Pair pair;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  void count_pairs(std::size_t index, int sign) {
    const Word& word = words_[index];
    for (std::size_t i = 0; i + 1 < word.symbols.size(); ++i) {
      const Pair pair{word.symbols[i], word.symbols[i + 1]};
      PairUse& use = pairs_[pair];
      use.count += sign * word.count;
      if (sign > 0) use.words.insert(index);
      changed_.insert(pair);
    }
  }

  static void replace(std::vector<std::int32_t>& symbols, const Pair& pair, std::int32_t merged) {
    std::size_t out = 0;
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      const bool here =
          i + 1 < symbols.size() && symbols[i] == pair.first && symbols[i + 1] == pair.second;
      symbols[out++] = here ? merged : symbols[i];
      if (here) ++i;
    }
    symbols.resize(out);
  }

  std::vector<Word> words_;
  std::unordered_map<Pair, PairUse, PairHash> pairs_;
  std::priority_queue<Candidate> heap_;
  std::unordered_set<Pair, PairHash> changed_;
};

Result<std::map<std::string, std::int64_t>> count_words(const std::vector<std::string>& texts) {
  OUTRIDER_ASSIGN_OR_RETURN(const SplitPattern pattern, SplitPattern::compile(kBpeSplitPattern));
  std::map<std::string, std::int64_t> counts;
  for (const std::string& text : texts) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<Span> spans, pattern.find_all(text));
    for (const Span& span : spans) ++counts[text.substr(span.begin, span.end - span.begin)];
  }
  return counts;
}

}  // namespace

Result<TrainedBpe> train_bpe(const std::vector<std::string>& texts, std::int32_t vocab_size) {
  if (vocab_size < kNumBytes + kNumSpecialTokens || vocab_size > (1 << 20)) {
    return invalid_argument("--vocab-size " + std::to_string(vocab_size) +
                            " is out of range. Remedy: choose 259 to 1048576");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const auto counts, count_words(texts));
  if (counts.empty()) return invalid_argument("no text to learn a vocabulary from");

  TrainedBpe result;
  std::array<std::int32_t, kNumBytes> id_of_byte{};
  for (const std::uint8_t byte : byte_order()) {
    id_of_byte[byte] = static_cast<std::int32_t>(result.pieces.size());
    result.pieces.emplace_back(1, static_cast<char>(byte));
  }
  std::vector<Word> words;
  for (const auto& [text, count] : counts) {
    Word& word = words.emplace_back();
    word.count = count;
    for (const char byte : text) {
      word.symbols.push_back(id_of_byte[static_cast<std::uint8_t>(byte)]);
    }
  }
  MergeTable table(std::move(words));
  const auto num_pieces = static_cast<std::size_t>(vocab_size - kNumSpecialTokens);
  // Two pairs may spell the same bytes, such as "a"+"bc" and "ab"+"c". They share one id.
  std::unordered_map<std::string, std::int32_t> id_of_piece;
  Pair pair;
  while (result.pieces.size() < num_pieces && table.best(pair)) {
    const std::string piece = result.pieces[static_cast<std::size_t>(pair.first)] +
                              result.pieces[static_cast<std::size_t>(pair.second)];
    const auto next = static_cast<std::int32_t>(result.pieces.size());
    const auto [entry, is_new] = id_of_piece.try_emplace(piece, next);
    if (is_new) result.pieces.push_back(piece);
    result.merges.push_back(pair);
    table.merge(pair, entry->second);
  }
  return result;
}

}  // namespace outrider
