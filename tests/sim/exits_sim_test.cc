// Early exits on a text that drifts from topic to topic, under a virtual clock: how far verdicts
// correct what exits state, and how many rounds are there in time because of it. The pair and its
// exits are synthetic, the devices and links those of FSD's table 5.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <span>
#include <utility>
#include <vector>

#include "bench/paces/paces.h"
#include "bench/stats/statistics.h"
#include "common/decoding/exits/online_calibration.h"
#include "sim/sim_edge.h"
#include "sim/sim_link.h"
#include "sim/sim_server.h"
#include "sim/synthetic_pair.h"

namespace outrider {
namespace {

constexpr std::int32_t kLayers = 32;
constexpr std::int32_t kVocab = 256;
constexpr Position kPrompt = 4, kTopicLength = 400, kTextLength = 2400;

// The topic on which exits were calibrated; a harder one, of which they are as sure; and one that
// misleads them: they are surer, and as often wrong.
const std::array<ExitCurve, 3>& topics() {
  static const std::array<ExitCurve, 3> kTopics = {
      ExitCurve{.match = {{0, 0.45}, {0.5, 0.75}, {1, 1}}, .confidence = {{0, 0.4}, {1, 0.8}}},
      ExitCurve{.match = {{0, 0.1}, {0.5, 0.35}, {1, 1}}, .confidence = {{0, 0.4}, {1, 0.8}}},
      ExitCurve{.match = {{0, 0.1}, {0.5, 0.35}, {1, 1}}, .confidence = {{0, 0.55}, {1, 0.95}}}};
  return kTopics;
}

std::size_t topic_at(Position position) {
  return static_cast<std::size_t>((position - kPrompt) / kTopicLength) % topics().size();
}

// Exits after some of the layers, calibrated on the first topic.
class DriftingExits final : public ExitHeads {
 public:
  explicit DriftingExits(std::vector<std::int32_t> layers) : layers_(std::move(layers)) {
    for (const ExitCurve& curve : topics()) by_topic_.emplace_back(curve, kLayers);
  }

  // The text is about this from now on.
  void set_topic(std::size_t topic) { topic_ = topic; }

  std::span<const std::int32_t> layers() const override { return layers_; }
  void compute(std::size_t exit, const HiddenRows& rows, std::span<float> logits) override {
    by_topic_[topic_].compute(layer_index(exit), rows, logits);
  }
  DraftPrior prior(std::size_t, double) const override { return {}; }
  double confidence(std::size_t exit, double temperature,
                    std::span<const RowEvidence> rows) const override {
    return by_topic_[0].confidence(layer_index(exit), temperature, rows);
  }

 private:
  std::size_t layer_index(std::size_t exit) const {
    return static_cast<std::size_t>(layers_[exit] - 1);
  }

  const std::vector<std::int32_t> layers_;
  std::vector<SyntheticExits> by_topic_;
  std::size_t topic_ = 0;
};

// How far confidences are from the share that is right: in ten bins of equal width, weighted by
// what is in them (the expected calibration error).
class Reliability {
 public:
  void add(double confidence, bool right) {
    Bin& bin =
        bins_[std::min<std::size_t>(bins_.size() - 1, static_cast<std::size_t>(confidence * 10))];
    ++bin.count;
    bin.stated += confidence;
    bin.right += right ? 1 : 0;
  }
  void add(const Reliability& other) {
    for (std::size_t i = 0; i < bins_.size(); ++i) {
      bins_[i].count += other.bins_[i].count;
      bins_[i].stated += other.bins_[i].stated;
      bins_[i].right += other.bins_[i].right;
    }
  }
  double error() const {
    double off = 0, count = 0;
    for (const Bin& bin : bins_) {
      off += std::abs(bin.stated - bin.right);
      count += bin.count;
    }
    return count > 0 ? off / count : 0;
  }

 private:
  struct Bin {
    double count = 0, stated = 0, right = 0;
  };
  std::array<Bin, 10> bins_;
};

// The figures of one kind of confidence.
struct ByTopic {
  std::array<Reliability, 3> topics = {};

  void add(const ByTopic& other) {
    for (std::size_t i = 0; i < topics.size(); ++i) topics[i].add(other.topics[i]);
  }
  Reliability all() const {
    Reliability sum;
    for (const Reliability& topic : topics) sum.add(topic);
    return sum;
  }
};

// Judges what the edge hears of exits: as they state it, and as it is corrected.
class Witness final : public SessionObserver {
 public:
  void watch(const SimEdge& edge) { edge_ = &edge; }

  void on_opened(const Opened& opened, Duration, bool) override { layers_ = opened.exits; }
  void on_exit_report(const ExitReport& report, bool taken, TimePoint) override {
    if (!taken) return;
    const MirroredTree& tree = edge_->drafter().tree();
    std::vector<TokenId> outcome = {report.next_token};
    outcome.insert(outcome.begin(), report.path.begin(), report.path.end());
    NodeIndex at = report.leaf_id == 0 ? kRoot : tree.ids().state(report.leaf_id).node;
    for (; at != kRoot; at = tree.node(at).parent) {
      outcome.insert(outcome.begin(), tree.node(at).token);
    }
    const double confidence = report.confidence / 255.0;
    const std::int32_t layer = layers_.at(static_cast<std::size_t>(report.exit));
    heard_.push_back({confidence, calibration_.hear(layer, confidence, outcome), outcome});
  }
  void on_verdict(const VerdictRecord& record, TimePoint) override {
    const Verdict& verdict = record.verdict;
    const std::size_t topic = topic_at(verdict.position);
    for (const Heard& one : heard_) {
      const bool right = one.outcome == verdict.tokens;
      stated.topics[topic].add(one.stated, right);
      corrected.topics[topic].add(one.corrected, right);
    }
    calibration_.on_verdict(verdict.tokens);
    heard_.clear();
  }

  ByTopic stated, corrected;

 private:
  struct Heard {
    double stated, corrected;
    std::vector<TokenId> outcome;
  };

  const SimEdge* edge_ = nullptr;
  std::vector<std::int32_t> layers_;
  OnlineCalibration calibration_;
  std::vector<Heard> heard_;
};

class NoAnswerText final : public AnswerText {
 public:
  Update push(TokenId) override { return {}; }
  std::string finish() override { return {}; }
};

struct Setting {
  const char* pace = "";
  double agreement = 0;  // the share of texts after which the draft's guess is the target's
  Optimize optimize = Optimize::kCost;
  int workers = 1;
  std::vector<std::int32_t> exits = {};  // the layers behind which they are
};

struct DriftedAnswer {
  DecodingStats stats;
  ByTopic stated, corrected;

  // The share of verdicts whose round was there, or its beginning.
  double hits() const {
    const PredraftStats& found = stats.predraft;
    return static_cast<double>(found.hits + found.partial_hits) /
           static_cast<double>(found.verdicts);
  }
  double whole_hits() const {
    return static_cast<double>(stats.predraft.hits) / static_cast<double>(stats.predraft.verdicts);
  }
};

ModelInfo synthetic_info() {
  ModelInfo info;
  info.vocab_size = kVocab;
  info.max_positions = 4096;
  return info;
}

// learns: both sides do; else all is as the exits state it.
DriftedAnswer answer(std::uint64_t seed, const Setting& setting, bool learns) {
  Simulation simulation(seed);
  SyntheticModel synthetic("target", 1, synthetic_info());
  SyntheticModel draft("draft", setting.agreement, synthetic_info());
  RankedTokensModel target(synthetic, kLayers);
  DriftingExits exits(setting.exits);
  const PaperPace pace = find_paces({setting.pace})->front();
  const PaceCurve pass = pass_curve(pace), step = step_curve(pace);
  SchedulerOptions options{.tokenizer_hash = "synthetic"};
  options.exits = &exits;
  options.report_queue = learns ? ReportQueue::kGain : ReportQueue::kPriority;
  SimServer server(simulation, target, options, [&pass](const PassRowCounts& rows) {
    return from_ms(pass.ms(static_cast<std::int64_t>(rows.rows)));
  });
  server.observe = [&exits](StreamId, const VerifySession& session) {
    exits.set_topic(topic_at(session.tree().end()));
  };
  const SimLink::Delays delays{from_ms(pace.one_way_ms), from_ms(pace.one_way_ms)};
  SimLink link(simulation, server, {.up = delays, .down = delays});
  Witness witness;
  SimEdgeSetup setup;
  setup.prompt = {1, 2, 3, static_cast<TokenId>(seed % kVocab)};
  setup.decoding.tokenizer_hash = "synthetic";
  setup.decoding.observer = &witness;
  setup.decoding.speculation.token_bound = kVocab;
  setup.decoding.speculation.end_position = kPrompt + kTextLength;
  setup.decoding.speculation.first = {
      .strategy = Strategy::kMirror, .optimize = setting.optimize, .learn_exits = learns};
  setup.drafter = {.max_positions = 4096, .vocab_size = kVocab, .workers = setting.workers};
  setup.step_takes = [&step](std::size_t rows) {
    return from_ms(step.ms(static_cast<std::int64_t>(rows)));
  };
  NoAnswerText text;
  SimEdgeObserver nobody;
  SimEdge edge(simulation, VerifierRoutes(link), draft, text, std::move(setup), nobody);
  witness.watch(edge);
  edge.begin();
  const TimePoint deadline = simulation.now() + std::chrono::hours(24);
  while (!edge.done() && simulation.step(deadline)) {
  }
  EXPECT_TRUE(edge.done() && edge.finish().status.ok());
  return {edge.session().stats(), witness.stated, witness.corrected};
}

std::vector<std::int32_t> every_layer() {
  std::vector<std::int32_t> layers;
  for (std::int32_t layer = 1; layer < kLayers; ++layer) layers.push_back(layer);
  return layers;
}

std::vector<std::int32_t> three_layers() {
  return {8, 16, 24};
}

// The confidences that exits state, and those corrected by verdicts, on the same texts.
struct Drift {
  ByTopic stated, corrected;
  std::vector<double> before, after, gained, whole_gained, speed_up;

  void add(const DriftedAnswer& old, const DriftedAnswer& learning) {
    stated.add(old.stated);
    corrected.add(learning.corrected);
    before.push_back(old.hits());
    after.push_back(learning.hits());
    gained.push_back(learning.hits() - old.hits());
    whole_gained.push_back(learning.whole_hits() - old.whole_hits());
    speed_up.push_back(old.stats.tpot_ms.value() / learning.stats.tpot_ms.value());
  }
};

Drift drift(const Setting& setting) {
  constexpr std::uint64_t kTexts = 8;
  Drift all;
  for (std::uint64_t seed = 1; seed <= kTexts; ++seed) {
    all.add(answer(seed, setting, false), answer(seed, setting, true));
  }
  return all;
}

void print(const char* name, const std::vector<std::int32_t>& layers, const Drift& drift) {
  std::printf("%s, %zu exits\n  calibration error: stated %.3f, corrected %.3f; by topic", name,
              layers.size(), drift.stated.all().error(), drift.corrected.all().error());
  for (std::size_t i = 0; i < topics().size(); ++i) {
    std::printf(" %.3f -> %.3f", drift.stated.topics[i].error(), drift.corrected.topics[i].error());
  }
  const auto show = [](const char* what, const std::vector<double>& values) {
    const Estimate mean = spread_of(values)->mean;
    std::printf("; %s %.3f [%.3f, %.3f]", what, mean.value, mean.interval->low,
                mean.interval->high);
  };
  std::printf("\n ");
  show("hits before", drift.before);
  show("after", drift.after);
  show("gained", drift.gained);
  show("whole rounds gained", drift.whole_gained);
  show("times as fast", drift.speed_up);
  std::printf("\n");
}

// A draft that has time for two rows in a pass must choose them well.
TEST(ExitsSim, OnDriftingTextVerdictsCorrectWhatExitsStateAndMoreRoundsAreThere) {
  for (const std::vector<std::int32_t>& layers : {every_layer(), three_layers()}) {
    const Drift found = drift({.pace = "jetson-160m-13b", .agreement = 0.75, .exits = layers});
    print("jetson-160m-13b", layers, found);
    EXPECT_GE(found.stated.all().error(), 0.1) << "or there is nothing to correct";
    EXPECT_LE(found.corrected.all().error(), 0.05);
    EXPECT_GE(spread_of(found.gained)->mean.interval->low, 0.03);
  }
}

// Where the draft has time for all that is likely, the order matters little; it must not harm.
TEST(ExitsSim, WhereTheDraftHasTimeNothingIsLost) {
  const Drift found = drift({.pace = "jetson-68m-7b",
                             .agreement = 0.6,
                             .optimize = Optimize::kLatency,
                             .workers = kDraftWorkers,
                             .exits = three_layers()});
  print("jetson-68m-7b, four workers", three_layers(), found);
  EXPECT_LE(found.corrected.all().error(), 0.05);
  EXPECT_GE(spread_of(found.gained)->mean.value, -0.005);
  EXPECT_GE(spread_of(found.speed_up)->mean.value, 0.99);
}

}  // namespace
}  // namespace outrider
