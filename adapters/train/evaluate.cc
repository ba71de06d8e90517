// SPDX-License-Identifier: Apache-2.0
#include "adapters/train/evaluate.h"

#include <algorithm>

namespace outrider {
namespace {

constexpr std::size_t kBatch = 16;

// Some documents side by side, and which of their tokens count.
struct Block {
  at::Tensor ids;                  // [documents, longest] int64, padded with 0
  at::Tensor places;               // [n] int64: rows that predict a token that counts
  at::Tensor targets;              // [n] int64
  std::vector<std::size_t> owner;  // [n]: the document
};

Block make_block(std::span<const Document> documents, Position max_positions) {
  std::size_t longest = 1;
  for (const Document& document : documents) longest = std::max(longest, document.tokens.size());
  longest = std::min(longest, static_cast<std::size_t>(max_positions));
  Block block;
  block.ids = at::zeros(
      {static_cast<std::int64_t>(documents.size()), static_cast<std::int64_t>(longest)}, at::kLong);
  std::vector<std::int64_t> places, targets;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const Document& document = documents[i];
    std::int64_t* row = block.ids.data_ptr<std::int64_t>() + i * longest;
    for (std::size_t j = 0; j < std::min(longest, document.tokens.size()); ++j) {
      row[j] = document.tokens[j];
      if (j == 0 || document.learnt[j] == 0) continue;
      places.push_back(static_cast<std::int64_t>(i * longest + j) - 1);
      targets.push_back(document.tokens[j]);
      block.owner.push_back(i);
    }
  }
  block.places = at::tensor(places, at::kLong);
  block.targets = at::tensor(targets, at::kLong);
  return block;
}

// Calls body(block, f32 logits of its places, index of its first document).
template <typename Body>
void for_blocks(const Llama& model, const std::vector<Document>& documents, const Body& body) {
  at::NoGradGuard no_grad;
  for (std::size_t begin = 0; begin < documents.size(); begin += kBatch) {
    const std::size_t count = std::min(kBatch, documents.size() - begin);
    const Block block =
        make_block(std::span(documents).subspan(begin, count), model.config().max_positions);
    if (block.owner.empty()) continue;
    const at::Tensor rows = model.hidden(block.ids).index_select(0, block.places);
    body(block, model.logits(rows).to(at::kFloat), begin);
  }
}

}  // namespace

std::vector<std::vector<bool>> greedy_hits(const Llama& model,
                                           const std::vector<Document>& documents) {
  std::vector<std::vector<bool>> hits(documents.size());
  for_blocks(model, documents,
             [&](const Block& block, const at::Tensor& logits, std::size_t first) {
               const at::Tensor right = model.likeliest(logits).eq(block.targets);
               for (std::size_t i = 0; i < block.owner.size(); ++i) {
                 hits[first + block.owner[i]].push_back(right.data_ptr<bool>()[i]);
               }
             });
  return hits;
}

HeldOutResult evaluate(const Llama& model, const std::vector<Document>& documents) {
  double loss = 0, tokens = 0, exact = 0;
  for_blocks(model, documents, [&](const Block& block, const at::Tensor& logits, std::size_t) {
    const auto count = static_cast<double>(block.owner.size());
    loss += at::cross_entropy_loss(logits, block.targets).item<double>() * count;
    tokens += count;
    const at::Tensor wrong = logits.argmax(-1).ne(block.targets);
    std::vector<bool> all_right(static_cast<std::size_t>(block.ids.size(0)), true);
    for (std::size_t i = 0; i < block.owner.size(); ++i) {
      if (wrong.data_ptr<bool>()[i]) all_right[block.owner[i]] = false;
    }
    exact += static_cast<double>(std::count(all_right.begin(), all_right.end(), true));
  });
  return {loss / std::max(1.0, tokens),
          exact / std::max(1.0, static_cast<double>(documents.size()))};
}

double tokens_per_pass(const std::vector<std::vector<bool>>& hits, int gamma) {
  double tokens = 0, passes = 0;
  for (const std::vector<bool>& text : hits) {
    for (std::size_t at = 0; at < text.size(); ++passes) {
      int taken = 0;
      while (taken < gamma && at + static_cast<std::size_t>(taken) < text.size() &&
             text[at + static_cast<std::size_t>(taken)]) {
        ++taken;
      }
      const std::size_t step = std::min(text.size() - at, static_cast<std::size_t>(taken) + 1);
      tokens += static_cast<double>(step);
      at += step;
    }
  }
  return passes > 0 ? tokens / passes : 0;
}

}  // namespace outrider
