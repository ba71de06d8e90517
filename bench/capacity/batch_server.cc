// SPDX-License-Identifier: Apache-2.0
#include "bench/capacity/batch_server.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace outrider {
namespace {

using Chosen = std::function<bool(const BatchWork&)>;

// First come first, until one does not fit.
std::vector<BatchPart> take_in_order(std::span<const BatchWork> waiting, std::int64_t rows,
                                     const Chosen& chosen) {
  std::vector<BatchPart> parts;
  for (std::size_t i = 0; i < waiting.size() && rows > 0; ++i) {
    const BatchWork& work = waiting[i];
    if (!chosen(work)) continue;
    const std::int64_t taken = work.prompt > 0 ? std::min(work.rows(), rows) : work.rows();
    if (taken > rows) break;
    parts.push_back({i, taken});
    rows -= taken;
  }
  return parts;
}

bool is_prompt(const BatchWork& work) {
  return work.prompt > 0;
}

// A round and its rows, at full length.
std::int64_t rounds_of_pass(const BatchRule& rule) {
  return std::max<std::int64_t>(rule.max_rows / (rule.gamma + 1), 1);
}

std::vector<BatchPart> next_pipelined(const BatchRule& rule, std::span<const BatchWork> waiting,
                                      std::span<const std::size_t> decoding, std::size_t turn) {
  const std::size_t batches = pipelined_batches(rule, decoding.size());
  const auto is_member = [&](std::size_t client) {
    const auto rank = std::ranges::lower_bound(decoding, client) - decoding.begin();
    return static_cast<std::size_t>(rank) % batches == turn % batches;
  };
  const auto members = std::ranges::count_if(decoding, is_member);
  const Chosen chosen = [&](const BatchWork& work) { return is_member(work.request.client); };
  if (std::ranges::count_if(waiting, chosen) < members) return {};
  return take_in_order(waiting, rule.max_rows, chosen);
}

}  // namespace

std::size_t pipelined_batches(const BatchRule& rule, std::size_t sessions) {
  const auto size = static_cast<std::size_t>(rounds_of_pass(rule));
  return std::max<std::size_t>((sessions + size - 1) / size, 1);
}

std::vector<BatchPart> next_batch(const BatchRule& rule, std::span<const BatchWork> waiting,
                                  std::span<const std::size_t> decoding, std::size_t turn) {
  const bool in_batches = rule.kind == BatchKind::kStatic || rule.kind == BatchKind::kPipelined;
  if (!in_batches) {
    return take_in_order(waiting, rule.max_rows, [](const BatchWork&) { return true; });
  }
  // A prompt is in no batch: it comes before them.
  if (std::ranges::any_of(waiting, is_prompt)) {
    return take_in_order(waiting, rule.max_rows, is_prompt);
  }
  if (waiting.empty()) return {};
  if (rule.kind == BatchKind::kPipelined) return next_pipelined(rule, waiting, decoding, turn);
  const std::size_t full =
      std::min(static_cast<std::size_t>(rounds_of_pass(rule)), decoding.size());
  if (waiting.size() < full) return {};
  return take_in_order(waiting, rule.max_rows, [](const BatchWork&) { return true; });
}

double batch_ms(const BatchRule& rule, const PaceCurve& pass, std::int64_t rows,
                std::int64_t rounds) {
  double drafting = 0;
  if (rounds > 0 && rule.kind == BatchKind::kColocatedSteps) {
    drafting = rule.gamma * rule.draft_share * pass.ms(rounds);
  } else if (rounds > 0 && rule.kind == BatchKind::kColocatedBlock) {
    drafting = rule.draft_share * pass.ms(rounds * rule.gamma);
  }
  return drafting + pass.ms(rows);
}

BatchServer::BatchServer(Simulation& simulation, const ClientLoad& load, const PaceCurve& pass,
                         const BatchRule& rule)
    : simulation_(simulation), load_(load), pass_(pass), rule_(rule) {
  OUTRIDER_CHECK(rule.max_rows > rule.gamma && rule.max_rows <= pass.points().back().rows);
}

void BatchServer::open(const RequestId& request) {
  waiting_.push_back({.request = request, .prompt = lengths_of(load_, request).prompt});
  start();
}

void BatchServer::take(const CrowdRound& round) {
  waiting_.push_back(
      {.request = round.request, .position = round.position, .drafted = round.count});
  start();
}

void BatchServer::start() {
  if (busy_) return;
  const std::vector<BatchWork> waiting(waiting_.begin(), waiting_.end());
  std::vector<BatchPart> parts = next_batch(rule_, waiting, decoding_, turn_);
  if (parts.empty()) return;
  std::vector<BatchWork> batch;
  std::int64_t rows = 0, rounds = 0;
  for (const BatchPart& part : parts) {
    BatchWork& work = batch.emplace_back(waiting[part.index]);
    rows += part.rows;
    rounds += is_prompt(work) ? 0 : 1;
    if (is_prompt(work)) work.prompt -= static_cast<int>(part.rows);
  }
  // The rest of a prompt keeps its place.
  for (std::size_t i = parts.size(); i-- > 0;) {
    const auto at = waiting_.begin() + static_cast<std::ptrdiff_t>(parts[i].index);
    if (batch[i].prompt > 0) {
      at->prompt = batch[i].prompt;
    } else {
      waiting_.erase(at);
    }
  }
  const Duration takes = from_ms(batch_ms(rule_, pass_, rows, rounds));
  ++counts_.passes;
  counts_.rows += static_cast<std::uint64_t>(rows);
  counts_.rounds += static_cast<std::uint64_t>(rounds);
  if (rounds > 0) ++turn_;
  busy_ = true;
  simulation_.after(takes, [this, batch = std::move(batch)] { finish(batch); });
}

void BatchServer::finish(const std::vector<BatchWork>& batch) {
  busy_ = false;
  for (const BatchWork& work : batch) {
    if (work.prompt == 0) decide(work);
  }
  start();
}

// A prompt is a round of no drafted tokens at position 0.
void BatchServer::decide(const BatchWork& work) {
  const RequestId& request = work.request;
  const int tokens = 1 + accepted(load_, request, work.position, work.drafted);
  const int end = work.position + tokens, answer = lengths_of(load_, request).answer;
  const auto at = std::ranges::lower_bound(decoding_, request.client);
  const bool listed = at != decoding_.end() && *at == request.client;
  if (end >= answer && listed) decoding_.erase(at);
  if (end < answer && !listed) decoding_.insert(at, request.client);
  on_tokens(request.client, tokens);
  if (end >= answer || !rule_.drafts_on_server()) return;
  waiting_.push_back(
      {.request = request, .position = end, .drafted = std::min(rule_.gamma, answer - 1 - end)});
}

}  // namespace outrider
