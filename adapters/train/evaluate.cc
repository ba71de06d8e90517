// SPDX-License-Identifier: Apache-2.0
#include "adapters/train/evaluate.h"

#include <algorithm>

namespace outrider {
namespace {

constexpr std::size_t kBatch = 16;

// A block of documents, and which of their tokens count.
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

// Calls body(block, f32 logits of its places).
template <typename Body>
void for_blocks(const Llama& model, const std::vector<Document>& documents, const Body& body) {
  at::NoGradGuard no_grad;
  for (std::size_t begin = 0; begin < documents.size(); begin += kBatch) {
    const std::size_t count = std::min(kBatch, documents.size() - begin);
    const Block block =
        make_block(std::span(documents).subspan(begin, count), model.config().max_positions);
    if (block.owner.empty()) continue;
    const at::Tensor rows = model.hidden(block.ids).index_select(0, block.places);
    body(block, model.logits(rows).to(at::kFloat));
  }
}

}  // namespace

HeldOutResult evaluate(const Llama& model, const std::vector<Document>& documents) {
  double loss = 0, tokens = 0, exact = 0;
  for_blocks(model, documents, [&](const Block& block, const at::Tensor& logits) {
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

}  // namespace outrider
