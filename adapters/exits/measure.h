// Calibrates trained exits and chooses which of them report. It replays held-out prompts with a
// draft, fits every exit's confidence on one half of them, and measures on the other half.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "adapters/exits/calibrate.h"
#include "adapters/exits/replay.h"
#include "common/decoding/exits/adapters.h"
#include "common/engine/model/format/model_files.h"

namespace outrider {

// --- which exits a target should report from; pure functions ---
//
// An exit after layer l of L speaks after l / L of the pass. If it names the outcome, the draft has
// the rest of the pass for the next chain. If drafting takes `chain_share` of a pass, the part
//
//   ready(l) = min(1, (1 - l / L) / chain_share)
//
// of the chain is there when the verdict comes. A pass is worth ready() of its first right exit. A
// set of exits is worth the mean over passes minus the share of a pass that computing it takes.

struct ExitFacts {
  std::int32_t layer = 0;
  double cost = 0;               // as a share of a pass
  std::vector<bool> right = {};  // by pass; the same length for each exit
};

struct ExitChoiceOptions {
  std::int32_t num_layers = 0;
  double chain_share = 0.45;  // drafting four tokens against one pass: FSD's table 8, 288 / 620 ms
};

// The worth of the exits at these indices of `exits`; the indices ascend.
double worth_of(std::span<const ExitFacts> exits, std::span<const std::size_t> chosen,
                const ExitChoiceOptions& options);

// The ascending layers of the best set that greedy search finds, which adds or removes one exit at
// a time. Empty if no exit is worth its cost.
std::vector<std::int32_t> choose_exits(std::span<const ExitFacts> exits,
                                       const ExitChoiceOptions& options);

// --- measuring ---

// Prompts of one kind; each prompt is in one of the halves.
struct ExitText {
  std::string name = {};
  std::vector<std::vector<TokenId>> fit = {}, measure = {};
};

struct MeasureOptions {
  int gamma = 4;
  Position max_tokens = 96;
  std::vector<double> temperatures = {0, 1};  // must include 0
  std::uint64_t seed = 1;
  double chain_share = 0.45;  // ExitChoiceOptions
};

struct ExitResult {
  std::int32_t layer = 0;
  double named = 0, mean_confidence = 0;
  double error_before = 0, error = 0;     // expected calibration errors
  std::vector<ReliabilityBin> bins = {};  // after calibration
  // Tokens that it named along its walk, and the share of them that the target chooses.
  std::int64_t tokens = 0;
  double token_agreement = 0;
  // Shares of the passes whose outcome it did not name, by the error: it took fewer drafted tokens
  // than the target, more, or as many but with another token behind them.
  double took_fewer = 0, took_more = 0, other_token = 0;
};

// One kind of text at one temperature.
struct TextResult {
  std::string text = {};
  double temperature = 0;
  std::int64_t passes = 0;
  double tokens_per_pass = 0;
  std::vector<ExitResult> exits = {};
  ExitResult best_at_half = {};  // after at most half of the layers
  double three_quarters = 0;     // share of the passes that any exit up to 3/4 depth named
  double chosen = 0;             // share of the passes that any chosen exit named
  double error_chosen = 0;       // calibration error over all reports of chosen exits
};

struct MeasureReport {
  std::int32_t num_layers = 0;
  std::vector<std::int32_t> chosen = {};
  std::vector<TextResult> results = {};
};

// target, draft: run the passes; files: the target's. on_progress(done) counts replayed prompts: at
// each temperature `fit` counts twice and `measure` once. Sets calibration, measured, cost and
// chosen.
Result<MeasureReport> measure_exits(ExitAdapters& adapters, Model& target, const ModelFiles& files,
                                    Model& draft, const std::vector<ExitText>& texts,
                                    const MeasureOptions& options,
                                    const std::function<void(std::int64_t)>& on_progress);

// Measures adapters that are already calibrated: nothing is fitted, and `texts` need no `fit`. The
// temperatures are those of the calibration, whatever `options` says. on_progress counts the
// prompts at each. Errors: kFailedPrecondition for adapters without calibration.
Result<MeasureReport> measure_committed(const ExitAdapters& adapters, Model& target,
                                        const ModelFiles& files, Model& draft,
                                        const std::vector<ExitText>& texts,
                                        const MeasureOptions& options,
                                        const std::function<void(std::int64_t)>& on_progress);

// --- measure_report.cc ---
std::string report_json(const MeasureReport& report);
// Share named right over confidence: one curve for each text and temperature, over all chosen
// exits.
std::string reliability_svg(const MeasureReport& report);
// Share named right, and mean confidence (dashed), over the exit's layer (FSD, figure 7).
std::string depth_svg(const MeasureReport& report);

}  // namespace outrider
