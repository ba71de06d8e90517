// The real edge against the real server, by the thousand: delays, cuts, reconnects, crowds, stop
// ids, short contexts, exits of the server's own or forged ones, and the faults of FaultInjector.
// Whatever happens, the text is the target's own. A failure prints its seed; run one seed with
// OUTRIDER_SIM_SEED=n (seeds.h). SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/lab/rivals.h"
#include "bench/lab/shaped_trees.h"
#include "sim/sim_link.h"
#include "sim/sim_server.h"
#include "tests/sim/checked_edge.h"
#include "tests/sim/fault_injector.h"
#include "tests/sim/seeds.h"
#include "tests/sim/toy_draft.h"
#include "tests/sim/toy_exits.h"
#include "tests/sim/toy_form.h"
#include "tests/sim/toy_model.h"

namespace outrider {
namespace {

// Longer than any outage of these runs; nothing may need it.
constexpr Duration kDeadlock = std::chrono::hours(1);

struct Totals {
  std::uint64_t answers = 0;
  std::uint64_t whole_answers = 0;
  std::uint64_t reconnects = 0;
  std::uint64_t accepted = 0;
  std::uint64_t tokens = 0;
  std::uint64_t hits = 0;
  std::uint64_t named_hits = 0;
  std::uint64_t ignored_reports = 0;
  std::uint64_t evicted = 0;
  std::uint64_t shared_passes = 0;         // as sessions count them, that another one had too
  std::uint64_t pruned_rows = 0;           // of branches that ended in the middle of a pass
  std::uint64_t server_reports = 0;        // that the server's own exits gave
  std::uint64_t server_tokens = 0;         // that were nodes of the server's own
  std::uint64_t acknowledged_reports = 0;  // messages that acknowledged some of them
  InjectedFaults faults;

  void count(const CheckedEdge& edge) {
    const DecodingStats& stats = edge.session().stats();
    reconnects += stats.reconnects;
    accepted += stats.num_accepted_tokens;
    tokens += stats.completion_tokens;
    hits += stats.predraft.hits;
    named_hits += stats.predraft.hits_by_exit.empty() ? 0 : 1;
    ignored_reports += stats.predraft.ignored_reports;
    evicted += stats.predraft.evicted_nodes;
    server_tokens += stats.num_server_tokens;
    acknowledged_reports += edge.acknowledged_reports();
  }
  void operator+=(const Totals& other) {
    answers += other.answers;
    whole_answers += other.whole_answers;
    reconnects += other.reconnects;
    accepted += other.accepted;
    tokens += other.tokens;
    hits += other.hits;
    named_hits += other.named_hits;
    ignored_reports += other.ignored_reports;
    evicted += other.evicted;
    server_reports += other.server_reports;
    server_tokens += other.server_tokens;
    pruned_rows += other.pruned_rows;
    shared_passes += other.shared_passes;
    acknowledged_reports += other.acknowledged_reports;
    faults += other.faults;
  }
};

struct SimulatedRun {
  explicit SimulatedRun(std::uint64_t seed)
      : simulation(seed),
        random(simulation.random()),
        model(static_cast<std::int32_t>(random.between(2, 12)), random.between(30, 60)),
        draft(model, 0.5f * static_cast<float>(random.below(5)), random.between(10, 80)),
        exits(model),
        has_exits(random.chance(0.3)),
        prune_below(random.chance(0.5) ? 0.3 : 0),
        server(
            simulation, model, server_options(),
            [this](const PassRowCounts&) { return random.between(from_ms(1), from_ms(20)); }, 1,
            [this](std::size_t) { return random.between(Duration{0}, from_ms(5)); }),
        faults(simulation, server, links) {}

  SchedulerOptions server_options() {
    SchedulerOptions options;
    options.tokenizer_hash = "toy";
    options.max_concurrent_sessions = static_cast<std::uint32_t>(random.between(1, 6));
    options.kv.kept = static_cast<std::uint32_t>(random.below(3));
    options.prefill_chunk = static_cast<std::uint32_t>(random.between(1, 8));
    options.max_rows = static_cast<std::uint32_t>(random.between(1, 33));
    options.max_batched_rows = static_cast<std::uint32_t>(random.between(1, 100));
    options.prefill_budget = static_cast<std::uint32_t>(random.between(1, 8));
    options.run_ahead = static_cast<std::uint32_t>(random.between(1, 32));
    if (has_exits) options.exits = &exits;
    if (has_exits) options.prune_below = prune_below;
    options.report_queue = static_cast<ReportQueue>(random.below(3));
    options.exit_score = random.chance(0.5) ? ExitScore::kCalibrated : ExitScore::kMaxSoftmax;
    options.draft_source = static_cast<DraftSource>(random.below(4));
    if (uses_model(options.draft_source)) options.draft_model = &draft;
    options.drafts_in_passes = random.chance(0.5);
    options.idle_timeout = std::chrono::hours(2);  // so that a deadlock is not healed by it
    return options;
  }

  // One of ours or a guest.
  template <typename Choice>
  Choice drawn(std::span<const typename Choice::GuestKind> guests) {
    const auto& own = enum_names<typename Choice::OwnKind>;
    const auto at = static_cast<std::size_t>(random.below(own.size() + guests.size()));
    return at < own.size() ? Choice(own[at].value) : Choice(guests[at - own.size()]);
  }

  CheckedEdge::Plan plan() {
    CheckedEdge::Plan plan;
    const auto vocab = static_cast<std::uint64_t>(model.info().vocab_size);
    for (std::int64_t left = random.between(1, 20); left > 0; --left) {
      plan.prompt.push_back(static_cast<TokenId>(random.below(vocab)));
    }
    DecodingOptions& decoding = plan.decoding;
    SpeculationOptions& speculated = decoding.speculation.first;
    speculated.strategy = drawn<StrategyChoice>(rival_strategies());
    if (speculated.strategy == Strategy::kSd) {
      speculated.tree.kind = drawn<TreeChoice>(std::span(shaped_trees()));
      speculated.tree.size = static_cast<std::size_t>(random.below(20));  // 0: the policy's own
      speculated.provisional = random.chance(0.5);
    }
    speculated.fan_out = static_cast<int>(random.between(1, 4));
    speculated.queue = static_cast<QueueOrder>(random.below(3));
    speculated.optimize = static_cast<Optimize>(random.below(3));
    if (random.chance(0.2)) speculated.uplink_budget = 1000;
    speculated.takes_turns = random.chance(0.2);
    plan.workers = static_cast<int>(random.between(1, 5));
    if (random.chance(0.3)) plan.cache_nodes = static_cast<std::size_t>(random.between(70, 90));
    if (!has_exits) plan.forged_exits = static_cast<ExitManner>(random.below(3));
    decoding.tokenizer_hash = "toy";
    decoding.speculation.token_bound = model.info().vocab_size;
    constexpr float kTemperatures[] = {0.0f, 0.7f, 1.0f};
    decoding.choice.sampling.temperature = kTemperatures[random.below(3)];
    decoding.choice.seed = random.below(1000);
    decoding.speculation.end_position =
        static_cast<Position>(plan.prompt.size()) + random.between(1, 60);
    if (random.chance(0.2)) decoding.stop_ids = {0};
    if (random.chance(0.2)) {
      decoding.top_logprobs = static_cast<std::uint32_t>(random.below(kMaxTopLogprobs + 1));
      decoding.prompt_logprobs = random.chance(0.5);
    }
    if (vocab >= 3 && random.chance(0.4)) {
      decoding.choice.settings = drawn_settings(random, model.info().vocab_size);
      if (decoding.choice.settings.constraint.asks()) decoding.stop_ids = {0};
    }
    decoding.accepts_server_nodes = random.chance(0.7);
    decoding.reconnect.timeout = std::chrono::minutes(30);
    decoding.jitter_seed = random.below(1000);
    speculated.gamma = static_cast<int>(random.between(1, 8));
    plan.strays = 0.25f * static_cast<float>(random.between(0, 6));
    if (random.chance(0.2)) plan.draft_context = random.between(1, 40);
    plan.prefill_chunk = static_cast<int>(random.between(1, 16));
    plan.cut = random.chance(0.4) ? 0.05 : 0.0;
    plan.cancel = random.chance(0.1) ? 0.02 : 0.0;
    if (random.chance(0.1)) plan.stop_after = 1;
    const Duration slowest_step = random.chance(0.2) ? from_ms(200) : from_ms(10);
    plan.step_takes = [this, slowest_step](std::size_t) {
      return random.between(Duration{0}, slowest_step);
    };
    return plan;
  }

  void add_edge() {
    const Duration longest = random.chance(0.3) ? from_ms(1) : from_ms(80);
    SimLink::Options options{.up = {Duration{0}, random.between(Duration{1}, longest)},
                             .down = {Duration{0}, random.between(Duration{1}, longest)}};
    if (random.chance(0.15)) options.bytes_per_s = static_cast<double>(random.between(2000, 20000));
    options.same_process = random.chance(0.5);  // with all the faults of a link
    if (random.chance(0.5)) options.max_waiting = static_cast<std::size_t>(random.between(3, 12));
    links.push_back(std::make_unique<SimLink>(simulation, server, options));
    edges.push_back(std::make_unique<CheckedEdge>(simulation, *links.back(), model, plan()));
  }

  // A failing pass ended the answer, as it may.
  bool out_of_memory(const Finish& finish) const {
    return faults.fatal_passes() && finish.ending == Ending::kFailed &&
           finish.status.code() == StatusCode::kResourceExhausted;
  }

  // The fault in the end of this edge's answer; empty if there is none.
  std::string judge(const CheckedEdge& edge) const {
    const Finish& finish = edge.finish();
    const bool cancelled = edge.cancelled() && finish.ending == Ending::kCancelled;
    if (cancelled || out_of_memory(finish)) {
      const auto& whole = edge.expected();
      const auto& part = edge.shown();
      const bool prefix =
          part.size() <= whole.size() && std::equal(part.begin(), part.end(), whole.begin());
      return prefix ? "" : "a text cut short is not the beginning of the target's";
    }
    if (edge.shown() != edge.expected()) {
      return "the text differs; ended by " + finish.status.to_string();
    }
    if (edge.session().answer() != edge.shown()) return "answer() is not what was shown";
    if (edge.session().logprobs() != edge.expected_logprobs()) return "log-probabilities differ";
    if (edge.session().prompt_logprobs() != edge.expected_prompt_logprobs()) {
      return "log-probabilities of the prompt differ";
    }
    const bool natural = finish.ending == Ending::kStopToken ||
                         finish.ending == Ending::kStopString || finish.ending == Ending::kLength ||
                         finish.ending == Ending::kContextFull;
    return natural ? "" : "ended by " + finish.status.to_string();
  }

  // Runs until every edge is done; what is wrong, or nothing.
  std::string run() {
    for (std::int64_t left = random.between(1, 7); left > 0; --left) add_edge();
    for (const auto& edge : edges) edge->begin();
    faults.begin();
    const TimePoint deadline = simulation.now() + kDeadlock;
    while (true) {
      bool done = true;
      for (const auto& edge : edges) {
        if (!edge->failure().empty()) return edge->failure();
        done &= edge->done();
      }
      if (done) break;
      if (!simulation.step(deadline)) return "deadlock";
    }
    for (const auto& edge : edges) {
      if (std::string wrong = judge(*edge); !wrong.empty()) return wrong;
      totals.count(*edge);
      totals.whole_answers += edge->shown() == edge->expected() ? 1 : 0;
      ++totals.answers;
    }
    totals.server_reports = server.reports_sent();
    const SchedulerStats stats = server.scheduler().stats();
    totals.pruned_rows = stats.pruned.rows_ended;
    totals.shared_passes = stats.passes - stats.device_passes;
    totals.faults = faults.counts();
    return {};
  }

  Simulation simulation;
  SeededRandom& random;
  ToyModel model;
  ToyDraft draft;
  ToyExits exits;
  bool has_exits;
  double prune_below;
  SimServer server;
  FaultInjector::Links links;
  FaultInjector faults;
  std::vector<std::unique_ptr<CheckedEdge>> edges;
  Totals totals;
};

TEST(DecodingSim, EveryEdgeGetsTheTargetsOwnTextWhateverTheLinkDoes) {
  const SimSeeds seeds = sim_seeds(3000);
  Totals totals;
  for (std::uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    SimulatedRun run(seed);
    ASSERT_EQ(run.run(), "") << "OUTRIDER_SIM_SEED=" << seed;
    totals += run.totals;
  }
  if (seeds.single) return;
  const std::uint64_t count = seeds.count();
  EXPECT_GT(totals.reconnects, count / 2) << "these runs are too kind";
  EXPECT_GT(totals.accepted, totals.tokens / 5) << "these drafts are of no use";
  EXPECT_GT(totals.hits, count / 2) << "nothing is drafted ahead";
  EXPECT_GT(totals.named_hits, count / 10) << "the exits are of no use";
  EXPECT_GT(totals.ignored_reports, count) << "these servers are too honest";
  EXPECT_GT(totals.evicted, 0u) << "the cache's bound is never met";
  EXPECT_GT(totals.server_reports, count) << "the server's own exits are silent";
  EXPECT_GT(totals.server_tokens, count) << "the server's own drafts are of no use";
  EXPECT_GT(totals.shared_passes, 2 * count) << "everybody rides alone";
  EXPECT_GT(totals.pruned_rows, count / 4) << "no branch ends in the middle of a pass";
  EXPECT_GT(totals.acknowledged_reports, count / 2);
  EXPECT_GT(totals.whole_answers, totals.answers * 4 / 5) << "too few answers are whole";
  expect_harsh(totals.faults, count);
}

TEST(DecodingSim, AGoodDraftSavesPassesAndABadOneCostsNone) {
  for (const float strays : {0.0f, 0.5f, 50.0f}) {
    Simulation simulation(7);
    ToyModel model(12, 256);
    SimServer server(simulation, model, {.tokenizer_hash = "toy"},
                     [](const PassRowCounts&) { return from_ms(10); });
    const SimLink::Delays delays{from_ms(20), from_ms(20)};
    SimLink link(simulation, server, {.up = delays, .down = delays});
    CheckedEdge::Plan plan{.prompt = {1, 2, 3}, .decoding = {}, .strays = strays};
    plan.step_takes = [](std::size_t) { return from_ms(5); };
    plan.decoding.speculation.first.strategy = Strategy::kSd;
    plan.decoding.tokenizer_hash = "toy";
    plan.decoding.speculation.token_bound = 12;
    plan.decoding.speculation.end_position = 103;
    CheckedEdge edge(simulation, link, model, plan);
    edge.begin();
    while (!edge.done() && simulation.step(simulation.now() + kDeadlock)) {
    }
    ASSERT_TRUE(edge.done());
    ASSERT_EQ(edge.shown(), edge.expected());
    const DecodingStats& stats = edge.session().stats();
    if (strays == 0.0f) {
      EXPECT_LE(stats.passes, 22u) << "five tokens a pass, except for pass 0";
    }
    EXPECT_LE(stats.passes, 100u);
    EXPECT_EQ(stats.completion_tokens, 100u);
  }
}

// A draft that is the target itself guesses right if it is adjusted by the path of each guess.
std::uint64_t passes_of_a_right_draft(const ChoiceSettings& settings, bool server_drafts) {
  Simulation simulation(7);
  ToyModel model(12, 256);
  ToyDraft draft(model, 0, 256);
  SchedulerOptions options{.tokenizer_hash = "toy"};
  if (server_drafts) {
    options.draft_source = DraftSource::kModel;
    options.draft_model = &draft;
  }
  SimServer server(simulation, model, options, [](const PassRowCounts&) { return from_ms(10); });
  SimLink link(simulation, server, {});
  CheckedEdge::Plan plan{.prompt = {1, 2, 3}, .decoding = {}, .strays = 0};
  plan.step_takes = [](std::size_t) { return from_ms(1); };
  plan.decoding.speculation.first.strategy = server_drafts ? Strategy::kAr : Strategy::kSd;
  plan.decoding.tokenizer_hash = "toy";
  plan.decoding.speculation.token_bound = 12;
  plan.decoding.speculation.end_position = 103;
  plan.decoding.choice.settings = settings;
  if (settings.constraint.asks()) plan.decoding.stop_ids = {0};
  CheckedEdge edge(simulation, link, model, plan);
  edge.begin();
  while (!edge.done() && simulation.step(simulation.now() + kDeadlock)) {
  }
  EXPECT_EQ(edge.shown(), edge.expected());
  return edge.session().stats().passes;
}

TEST(DecodingSim, EveryDraftGuessesByTheAnswersSettings) {
  const ChoiceSettings settings{.presence_penalty = 0.5f,
                                .frequency_penalty = 1,
                                .logit_bias = {{2, 2.0f}},
                                .bad_words = {{5, 6}, {4}}};
  SeededRandom random(11);
  const ChoiceSettings form{.constraint = ToyForm::drawn(random, 12, false)};
  for (const bool server_drafts : {false, true}) {
    const std::uint64_t plain = passes_of_a_right_draft({}, server_drafts) + 2;
    const char* const drafter = server_drafts ? "the server drafts" : "the edge drafts";
    EXPECT_LE(passes_of_a_right_draft(settings, server_drafts), plain) << drafter;
    EXPECT_LE(passes_of_a_right_draft(form, server_drafts), plain) << drafter << " under a form";
  }
}

}  // namespace
}  // namespace outrider
