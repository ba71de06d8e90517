// SPDX-License-Identifier: Apache-2.0
#include "adapters/exits/replay.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "common/decoding/drafting/draft_engine.h"
#include "common/decoding/drafting/drafter.h"
#include "common/decoding/drafting/growth_policy.h"
#include "common/decoding/verify/exits/exit_probe.h"
#include "common/decoding/verify/scheduling/pass_runner.h"
#include "common/decoding/verify/session/session.h"

namespace outrider {
namespace {

constexpr std::uint32_t kPrefillChunk = 128;

// Subtracts the time of a probe from that of the pass.
class TimedTap final : public LayerTap {
 public:
  TimedTap(ExitProbe& probe, std::span<const std::int32_t> layers, Clock& clock)
      : probe_(probe), layers_(layers), clock_(clock), seconds_(layers.size()) {}

  bool wants(std::int32_t layer) const override { return probe_.wants(layer); }
  void on_layer(const HiddenRows& rows) override {
    const TimePoint start = clock_.now();
    probe_.on_layer(rows);
    const auto exit = std::lower_bound(layers_.begin(), layers_.end(), rows.layer);
    seconds_[static_cast<std::size_t>(exit - layers_.begin())] += to_seconds(clock_.now() - start);
  }
  const std::vector<double>& seconds() const { return seconds_; }

 private:
  ExitProbe& probe_;
  const std::span<const std::int32_t> layers_;
  Clock& clock_;
  std::vector<double> seconds_;
};

Target describe(const ModelInfo& info, int gamma) {
  return {.model = info,
          .tokenizer_hash = {},
          .limits = {.max_rows = static_cast<std::uint32_t>(gamma) + 1,
                     .max_positions = info.max_positions,
                     .vocab_size = info.vocab_size}};
}

DrafterOptions drafter_options(const ModelInfo& draft) {
  return {.max_positions = draft.max_positions,
          .vocab_size = draft.vocab_size,
          .prefill_chunk = kPrefillChunk};
}

}  // namespace

// One answer in progress.
class PassReplay::Answer final {
 public:
  Answer(PassReplay& replay, const Open& open, int gamma, std::unique_ptr<KvCache> cache,
         std::unique_ptr<DraftEngine> draft_engine)
      : replay_(replay),
        open_(open),
        gamma_(gamma),
        cache_(std::move(cache)),
        draft_engine_(std::move(draft_engine)),
        drafter_(drafter_options(replay.draft_.info())),
        session_(open, describe(replay.target_.info(), gamma),
                 {.session_id = {}, .prefill_chunk = kPrefillChunk}, replay.clock_.now()),
        runner_(replay.target_),
        probe_(replay.heads_, ExitScore::kCalibrated) {
    probe_.observe([this](const ExitProbe::Finding& finding) { note(finding); });
    draft_engine_->set_choice({open.sampling, open.seed});
    drafter_.restart(open.prefix);
  }

  bool finished() const { return session_.finished(); }

  // One pass, or one chunk of the prefill.
  Status step(const std::function<void(PassSample)>& on_pass) {
    OUTRIDER_RETURN_IF_ERROR(send_chain());
    rider_ = {.plan = session_.start(replay_.clock_.now()), .cache = cache_.get()};
    const PassPlan& plan = rider_.plan;
    sample_ = {.exits = std::vector<ExitSample>(replay_.heads_.layers().size())};
    walks_.assign(sample_.exits.size(), {});
    top_pairs_.resize(sample_.exits.size());
    OUTRIDER_RETURN_IF_ERROR(compute());
    const Chooser choose = [this](std::size_t row, Position position) {
      return outrider::choose(runner_.logits(rider_, row), open_.sampling, open_.seed, position);
    };
    if (plan.decides) {
      const PassWalk verdict = session_.walk(plan, choose);
      judge(verdict, choose);
      drafter_.commit(verdict.tokens);
      on_pass(std::move(sample_));
    }
    runner_.keep(rider_, session_.finish(choose, {}, replay_.clock_.now()));
    session_.take_messages();
    return {};
  }

 private:
  // Drafts a chain, up to the end of the answer, and sends it. Only passes that decide have drafted
  // tokens.
  Status send_chain() {
    const Position end = session_.tree().end();
    if (static_cast<std::size_t>(end) - session_.cached_text().size() > kPrefillChunk) return {};
    const Position depth = std::min<Position>(gamma_, open_.end_position - end - 1);
    const RoundShape chain{.length = static_cast<std::size_t>(depth)};
    const RoundPolicy policy(chain);
    while (const std::optional<DraftStep> step = drafter_.grow(policy, depth)) {
      OUTRIDER_ASSIGN_OR_RETURN(const DraftStepDone done, draft_engine_->run(*step));
      drafter_.finish_step(done);
    }
    const Limits& limits = session_.limits();
    return session_.on_message(
        {.acked_position = end,
         .body = drafter_.nodes().send_round(chain, limits.max_nodes, limits.vocab_size)},
        replay_.clock_.now());
  }

  Status compute() {
    const PassPlan& plan = rider_.plan;
    probe_.begin(replay_.target_.info().vocab_size);
    TimedTap tap(probe_, replay_.heads_.layers(), replay_.clock_);
    const TimePoint start = replay_.clock_.now();
    runner_.place({&rider_, 1});
    if (plan.decides) probe_.watch(session_, plan, rider_.first_logits, {});
    runner_.compute({&rider_, 1}, {.tap = plan.decides ? &tap : nullptr});
    OUTRIDER_RETURN_IF_ERROR(rider_.status);
    if (plan.tokens.size() > 1 || !plan.decides) return {};
    ReplayTimes& times = replay_.times_;
    const std::vector<double>& exits = tap.seconds();
    const double alone =
        to_seconds(replay_.clock_.now() - start) - std::accumulate(exits.begin(), exits.end(), 0.0);
    for (std::size_t i = 0; i < exits.size() && alone > 0; ++i) {
      times.exit_shares[i].push_back(exits[i] / alone);
    }
    return {};
  }

  void note(const ExitProbe::Finding& finding) {
    walks_[finding.exit] = finding.walk;
    ExitSample& exit = sample_.exits[finding.exit];
    exit.rows.assign(finding.rows.begin(), finding.rows.end());
    exit.max_softmax = std::exp(-double{finding.rows.back().spread});
    top_pairs_[finding.exit].assign(finding.top_pair.begin(), finding.top_pair.end());
  }

  // Compares the exits' outcomes with the target's choices.
  void judge(const PassWalk& verdict, const Chooser& choose) {
    sample_.accepted = verdict.leaf + 1;
    for (std::size_t i = 0; i < walks_.size(); ++i) {
      ExitSample& exit = sample_.exits[i];
      exit.right = walks_[i].leaf == verdict.leaf && walks_[i].tokens == verdict.tokens;
      // A chain's rows are in order, so row k of the walk is row k of the pass.
      Position position = session_.tree().end();
      for (std::size_t row = 0; row < walks_[i].tokens.size(); ++row, ++position) {
        const TokenId right = choose(row, position);
        exit.row_right.push_back(right == walks_[i].tokens[row]);
        const ExitProbe::TopPair& top_pair = top_pairs_[i][row];
        if (!top_pair.drafted_any) continue;
        exit.comparisons.push_back({.lead = top_pair.lead,
                                    .odds = top_pair.odds,
                                    .drafted_right = right == top_pair.drafted,
                                    .other_right = right == top_pair.other});
      }
    }
  }

  PassReplay& replay_;
  const Open open_;
  const int gamma_;
  const std::unique_ptr<KvCache> cache_;
  const std::unique_ptr<DraftEngine> draft_engine_;
  Drafter drafter_;
  VerifySession session_;
  PassRunner runner_;
  Rider rider_;  // of the current pass
  ExitProbe probe_;
  PassSample sample_;
  std::vector<PassWalk> walks_;                             // of the current pass, by exit
  std::vector<std::vector<ExitProbe::TopPair>> top_pairs_;  // by exit, and by row of its walk
};

PassReplay::PassReplay(Model& target, Model& draft, ExitHeads& heads, Clock& clock)
    : target_(target), draft_(draft), heads_(heads), clock_(clock) {
  times_.exit_shares.resize(heads.layers().size());
}

Status PassReplay::run(std::span<const TokenId> prompt, const ReplayOptions& options,
                       const std::function<void(PassSample)>& on_pass) {
  const auto longest = static_cast<Position>(prompt.size()) + options.max_tokens;
  if (longest > std::min(target_.info().max_positions, draft_.info().max_positions)) {
    return invalid_argument("a prompt of " + std::to_string(prompt.size()) +
                            " tokens and an answer of " + std::to_string(options.max_tokens) +
                            " do not fit the models' contexts. Remedy: a smaller --max-tokens");
  }
  const auto capacity = static_cast<std::int32_t>(longest) + options.gamma + 2;
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<KvCache> cache, target_.new_cache(capacity));
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<DraftEngine> draft_engine,
                            DraftEngine::create(draft_, clock_, capacity));
  Open open;
  open.sampling = options.sampling;
  open.seed = options.seed;
  open.prefix.assign(prompt.begin(), prompt.end());
  open.end_position = longest;
  Answer answer(*this, open, options.gamma, std::move(cache), std::move(draft_engine));
  while (!answer.finished()) OUTRIDER_RETURN_IF_ERROR(answer.step(on_pass));
  return {};
}

}  // namespace outrider
