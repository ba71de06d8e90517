// SPDX-License-Identifier: Apache-2.0
#include "bench/capacity/verifier_server.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "common/model/row_check.h"

namespace outrider {
namespace {

// Of two tokens the first is always the likelier one.
constexpr TokenId kRight = 0;
constexpr TokenId kWrong = 1;
constexpr TokenId kTokens = 2;

class OneTokenModel final : public Model {
 public:
  explicit OneTokenModel(Position max_positions) {
    info_.name = info_.architecture = "one token";
    info_.fingerprint = info_.arithmetic_id = "0";
    info_.dtype = "f32";
    info_.vocab_size = kTokens;
    info_.num_layers = 1;
    info_.max_positions = max_positions;
  }

  const ModelInfo& info() const override { return info_; }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override {
    return std::make_shared<KvPages>(this, count);
  }
  Status forward(std::span<const Row> rows, PassOutput& out) override {
    OUTRIDER_RETURN_IF_ERROR(check_rows(rows, info_, this));
    const auto wanted = std::ranges::count_if(rows, &Row::wants_logits);
    out.vocab_size = kTokens;
    out.logits.assign(static_cast<std::size_t>(wanted) * kTokens, 0.0f);
    for (std::size_t i = kRight; i < out.logits.size(); i += kTokens) out.logits[i] = 1;
    return {};
  }

 private:
  ModelInfo info_;
};

// Of prompt and answer; lengths_of() draws up to one and a half times the means.
Position longest_text(const ClientLoad& load) {
  return 2 * (Position{load.prompt} + load.answer) + 2;
}

}  // namespace

VerifierServer::VerifierServer(Simulation& simulation, const ClientLoad& load,
                               const PaceCurve& pass, const Limits& limits)
    : load_(load),
      pass_(pass),
      gamma_(limits.gamma),
      waits_(limits.waits),
      model_(std::make_unique<OneTokenModel>(longest_text(load))),
      server_(simulation, *model_, options(limits),
              [this](const PassRowCounts& rows) { return pass_takes(rows); }),
      sessions_(load.clients) {}

SchedulerOptions VerifierServer::options(const Limits& limits) const {
  SchedulerOptions options;
  const auto max_rows = static_cast<std::uint32_t>(limits.max_rows);
  options.price_rows = limits.price_rows;
  options.max_concurrent_sessions = static_cast<std::uint32_t>(load_.clients);
  options.max_batched_rows = max_rows;
  options.prefill_budget = std::min(options.prefill_budget, max_rows);
  options.prefill_chunk = max_rows;
  options.max_nodes = 256;
  options.max_rows = static_cast<std::uint32_t>(gamma_ + 1);
  options.run_ahead = 1u << 20;  // clients acknowledge nothing
  options.idle_timeout = load_.end() + std::chrono::hours(1);
  // Each text is a session's own: all have the same tokens, and would share one cache.
  options.kv.share_prefixes = false;
  options.kv.kept = 0;
  options.kv.kept_for = std::chrono::seconds(1);
  return options;
}

Duration VerifierServer::pass_takes(const PassRowCounts& rows) {
  const auto count = static_cast<std::int64_t>(rows.rows);
  if (count > pass_.points().back().rows) {
    status_ = internal_error("a pass of " + std::to_string(count) + " rows is beyond the curve");
  }
  return from_ms(pass_.ms(count));
}

void VerifierServer::open(const RequestId& request) {
  const RequestLengths lengths = lengths_of(load_, request);
  Session& session = sessions_[request.client];
  StreamOwner owner;
  owner.group = load_.kind_of(request.client, 0).group;
  session = {.stream = server_.connect([this, client = request.client](
                                           const VerifierEvent& event) { hear(client, event); },
                                       std::move(owner)),
             .next_id = 1,
             .prompt = lengths.prompt};
  Open open;
  open.prefix.assign(static_cast<std::size_t>(lengths.prompt), kRight);
  open.end_position = Position{lengths.prompt} + lengths.answer;
  open.policy.row_limit = static_cast<std::uint32_t>(gamma_);
  open.policy.pass_policy = waits_ ? PassPolicy::kOnRequest : PassPolicy::kEager;
  server_.post(session.stream, {0, 0, std::move(open)});
}

void VerifierServer::take(const CrowdRound& round) {
  Session& session = sessions_[round.request.client];
  Grow grow{
      .first_id = session.next_id, .anchor_position = session.prompt + round.text_end, .nodes = {}};
  const std::uint8_t stated =
      confidence_byte(static_cast<float>(load_.kind_of(round.request.client, 0).stated));
  for (int i = 0; i < round.count; ++i) {
    const bool right = stands(load_, round.request, round.position + i);
    const bool chained = i > 0 || round.position > round.text_end;
    grow.nodes.push_back(
        {.token = right ? kRight : kWrong, .parent = chained ? 1u : 0u, .confidence = stated});
  }
  session.next_id += static_cast<NodeId>(round.count);
  server_.post(session.stream, {0, 0, std::move(grow)});
}

void VerifierServer::hear(std::size_t client, const VerifierEvent& event) {
  if (const auto* ended = std::get_if<StreamEnded>(&event)) {
    if (!ended->status.ok() && status_.ok()) status_ = ended->status;
    return;
  }
  const auto* verdict = std::get_if<Verdict>(&std::get<ServerMessage>(event));
  if (verdict != nullptr) on_tokens(client, static_cast<int>(verdict->tokens.size()));
}

CrowdServerCounts VerifierServer::counts() const {
  const SchedulerStats stats = server_.scheduler().stats();
  return {.passes = stats.device_passes, .rows = stats.rows, .rounds = stats.passes};
}

}  // namespace outrider
