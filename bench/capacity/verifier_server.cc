// SPDX-License-Identifier: Apache-2.0
#include "bench/capacity/verifier_server.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <variant>

#include "common/engine/model/row_check.h"

namespace outrider {
namespace {

// The token that the target always writes, and the token of a wrong draft.
constexpr TokenId kRight = 0;
constexpr TokenId kWrong = 1;
// Where there is a draft model, a prompt begins with so much more than its client's number, so that
// the draft knows whose text it reads.
constexpr TokenId kFirstClient = 2;
// So many tokens at least, among which what a draft does not guess is spread.
constexpr TokenId kMinVocabulary = 16;
constexpr std::int64_t kOwnNodes = 16;  // the most that the server drafts for a pass of a session

class OneTokenModel final : public Model {
 public:
  // next: the likeliest token behind a row, and how likely it is. Called for each row.
  using Next = std::function<Guess(const Row&)>;

  OneTokenModel(Position max_positions, TokenId vocab_size, Next next) : next_(std::move(next)) {
    info_.name = info_.architecture = "one token";
    info_.fingerprint = info_.arithmetic_id = "0";
    info_.dtype = "f32";
    info_.vocab_size = vocab_size;
    info_.num_layers = 1;
    info_.max_positions = max_positions;
  }

  const ModelInfo& info() const override { return info_; }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override {
    return std::make_shared<KvPages>(this, count);
  }
  Status forward(std::span<const Row> rows, PassOutput& out) override {
    OUTRIDER_RETURN_IF_ERROR(check_rows(rows, info_, this));
    const auto tokens = static_cast<std::size_t>(info_.vocab_size);
    out.vocab_size = info_.vocab_size;
    out.logits.clear();
    for (const Row& row : rows) {
      const Guess next = next_(row);
      if (!row.wants_logits) continue;
      out.logits.resize(out.logits.size() + tokens, 0.0f);
      const std::size_t begin = out.logits.size() - tokens;
      out.logits[begin + static_cast<std::size_t>(next.token)] = log_odds(next.confidence);
    }
    return {};
  }

 private:
  // A logit beside others of 0, such that the softmax is this confidence; above theirs in any case.
  float log_odds(float confidence) const {
    const auto others = static_cast<float>(info_.vocab_size - 1);
    const float sure = std::clamp(confidence, 2 / (others + 2), 0.999f);
    return std::log(sure * others / (1 - sure));
  }

  const Next next_;
  ModelInfo info_;
};

TokenId vocab_size(const ClientLoad& load, bool drafts) {
  return drafts ? std::max(kMinVocabulary, kFirstClient + static_cast<TokenId>(load.clients))
                : kFirstClient;
}

// The most tokens of prompt and answer together; lengths_of() draws up to one and a half times the
// means.
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
      model_(std::make_unique<OneTokenModel>(longest_text(load),
                                             vocab_size(load, limits.draft_share > 0),
                                             [](const Row&) {
                                               return Guess{kRight, 1};
                                             })),
      draft_(limits.draft_share > 0
                 ? std::make_unique<OneTokenModel>(longest_text(load), vocab_size(load, true),
                                                   [this](const Row& row) { return drafted(row); })
                 : nullptr),
      server_(
          simulation, *model_, options(limits),
          [this](const PassRowCounts& rows) { return pass_takes(rows); }, 1,
          [this, share = limits.draft_share](std::size_t rows) {
            return from_ms(share * pass_.ms(static_cast<std::int64_t>(rows)));
          }),
      sessions_(load.clients) {}

// The guess of the draft beside the target for the token behind the row.
Guess VerifierServer::drafted(const Row& row) {
  const Position position = row.cache->slots().position(row.slot);
  if (position == 0) {
    read_by_draft_[row.cache] = static_cast<std::size_t>(row.token - kFirstClient);
  }
  const Session& session = sessions_[read_by_draft_.at(row.cache)];
  const double acceptance = load_.kind_of(session.request.client, 0).acceptance;
  const Position next = position + 1 - session.prompt;
  const bool right = next < 0 || stands(load_, session.request, next);
  return {right ? kRight : kWrong, static_cast<float>(acceptance)};
}

SchedulerOptions VerifierServer::options(const Limits& limits) const {
  SchedulerOptions options;
  const auto max_rows = static_cast<std::uint32_t>(limits.max_rows);
  options.price_rows = limits.price_rows;
  options.max_concurrent_sessions = static_cast<std::uint32_t>(load_.clients);
  options.max_batched_rows = max_rows;
  options.prefill_budget = std::min(options.prefill_budget, max_rows);
  options.prefill_chunk = max_rows;
  options.max_nodes = 256;
  const std::int64_t nodes = draft_ != nullptr ? std::max<std::int64_t>(gamma_, kOwnNodes) : gamma_;
  options.max_rows = static_cast<std::uint32_t>(std::min(nodes + 1, limits.max_rows));
  options.draft_source = draft_ != nullptr ? DraftSource::kModel : DraftSource::kNone;
  options.draft_model = draft_.get();
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
  session = {.request = request,
             .stream = server_.connect([this, client = request.client](
                                           const VerifierEvent& event) { hear(client, event); },
                                       std::move(owner)),
             .next_id = 1,
             .prompt = lengths.prompt};
  Open open;
  open.prefix.assign(static_cast<std::size_t>(lengths.prompt), kRight);
  if (draft_ != nullptr) {
    open.prefix.front() = kFirstClient + static_cast<TokenId>(request.client);
    open.accepts_server_nodes = true;
  }
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
  if (verdict == nullptr) return;
  const auto own = static_cast<std::uint64_t>(std::popcount(verdict->server_nodes));
  from_server_ += own;
  from_clients_ += verdict->tokens.size() - 1 - own;
  on_tokens(client, static_cast<int>(verdict->tokens.size()));
}

CrowdServerCounts VerifierServer::counts() const {
  const SchedulerStats stats = server_.scheduler().stats();
  return {.passes = stats.device_passes,
          .rows = stats.rows,
          .rounds = stats.passes,
          .from_clients = from_clients_,
          .from_server = from_server_};
}

}  // namespace outrider
