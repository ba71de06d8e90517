// SPDX-License-Identifier: Apache-2.0
#include "common/engine/sampling/row_adjuster.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/status.h"

namespace outrider {
namespace {

void lower(TokenId token, std::span<float> out) {
  const auto place = static_cast<std::size_t>(token);
  if (place < out.size()) out[place] = -std::numeric_limits<float>::infinity();
}

}  // namespace

RowAdjuster::RowAdjuster(ChoiceSettings settings, Position answer_begin,
                         std::vector<TokenId> stop_ids)
    : settings_(std::move(settings)),
      answer_begin_(answer_begin),
      stop_ids_(std::move(stop_ids)),
      adjusts_(!settings_.change_nothing()) {
  if (!settings_.constraint.asks()) return;
  OUTRIDER_CHECK(settings_.constraint.compiled != nullptr);
  form_ = settings_.constraint.compiled->begin();
}

void RowAdjuster::append(std::span<const TokenId> tokens) {
  if (!adjusts_) return;
  for (const TokenId token : tokens) {
    const bool answers = end_++ >= answer_begin_;
    if (answers) answer_.push_back(token);
    if (answers && form_ != nullptr) form_->append({&token, 1});
    if (!settings_.penalise()) continue;
    const auto [at, is_new] = place_.try_emplace(token, seen_.size());
    if (is_new) seen_.push_back({.token = token});
    seen_[at->second].in_answer += answers ? 1 : 0;
  }
}

std::span<const float> RowAdjuster::adjust(std::span<const float> row,
                                           std::span<const TokenId> path,
                                           std::vector<float>& out) const {
  if (!adjusts_) return row;
  out.assign(row.begin(), row.end());
  if (settings_.penalise()) penalise(row, path, out);
  for (const LogitBias& one : settings_.logit_bias) {
    const auto place = static_cast<std::size_t>(one.token);
    if (place < out.size()) out[place] += one.bias;
  }
  forbid(path, out);
  if (form_ != nullptr) constrain(path, out);
  return out;
}

std::vector<TokenId> RowAdjuster::forced(std::span<const TokenId> path) const {
  return form_ == nullptr ? std::vector<TokenId>() : form_->forced(path);
}

// Each from the model's own logit, so that a token of the path may be written again.
void RowAdjuster::penalise(std::span<const float> row, std::span<const TokenId> path,
                           std::span<float> out) const {
  const auto write = [&](TokenId token, std::int32_t in_answer) {
    const auto place = static_cast<std::size_t>(token);
    if (place < row.size()) out[place] = penalised(row[place], in_answer);
  };
  for (const Seen& one : seen_) write(one.token, one.in_answer);
  for (const TokenId token : path) {
    const auto at = place_.find(token);
    const std::int32_t before = at == place_.end() ? 0 : seen_[at->second].in_answer;
    write(token, before + static_cast<std::int32_t>(std::ranges::count(path, token)));
  }
}

float RowAdjuster::penalised(float logit, std::int32_t in_answer) const {
  const float repetition = settings_.repetition_penalty;
  logit = logit > 0 ? logit / repetition : logit * repetition;
  if (in_answer == 0) return logit;
  logit -= settings_.frequency_penalty * static_cast<float>(in_answer);
  return logit - settings_.presence_penalty;
}

void RowAdjuster::forbid(std::span<const TokenId> path, std::span<float> out) const {
  const auto length = static_cast<std::int64_t>(answer_.size() + path.size());
  if (length < settings_.min_tokens) {
    for (const TokenId token : stop_ids_) lower(token, out);
  }
  for (const std::vector<TokenId>& word : settings_.bad_words) {
    if (would_complete(word, path)) lower(word.back(), out);
  }
}

// A stop token that is also text ends the answer, so it may come at the form's end only.
void RowAdjuster::constrain(std::span<const TokenId> path, std::span<float> out) const {
  const std::shared_ptr<const AllowedTokens> allowed = form_->allowed(path);
  std::vector<float> stops;
  for (const TokenId token : stop_ids_) {
    const auto place = static_cast<std::size_t>(token);
    if (place < out.size()) stops.push_back(out[place]);
  }
  for (std::size_t begin = 0; begin < out.size(); begin += 32) {
    const std::size_t word = begin / 32;
    const std::uint32_t bits = word < allowed->words.size() ? allowed->words[word] : 0;
    if (bits == ~std::uint32_t{0}) continue;
    const std::size_t end = std::min(begin + 32, out.size());
    for (std::size_t place = begin; place < end; ++place) {
      if ((bits >> (place - begin) & 1) == 0) lower(static_cast<TokenId>(place), out);
    }
  }
  auto kept = stops.begin();
  for (const TokenId token : stop_ids_) {
    const auto place = static_cast<std::size_t>(token);
    if (place >= out.size()) continue;
    out[place] = allowed->may_end ? *kept : -std::numeric_limits<float>::infinity();
    ++kept;
  }
}

// The answer ends with all of the word but its last token.
bool RowAdjuster::would_complete(std::span<const TokenId> word,
                                 std::span<const TokenId> path) const {
  const std::size_t length = answer_.size() + path.size(), before = word.size() - 1;
  if (before > length) return false;
  for (std::size_t i = 0; i < before; ++i) {
    const std::size_t at = length - before + i;
    const TokenId token = at < answer_.size() ? answer_[at] : path[at - answer_.size()];
    if (token != word[i]) return false;
  }
  return true;
}

}  // namespace outrider
