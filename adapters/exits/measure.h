// From trained exits to exits worth trusting: replays held-out prompts with a draft, fits every
// exit's confidence on one half, measures on the other, and chooses which exits shall report.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "adapters/exits/calibrate.h"
#include "adapters/exits/replay.h"
#include "common/exits/adapters.h"
#include "common/model/format/model_files.h"

namespace outrider {

// Prompts of one kind; each prompt is in one of the halves.
struct ExitText {
  std::string name = {};
  std::vector<std::vector<TokenId>> fit = {}, measure = {};
};

struct MeasureOptions {
  int gamma = 4;
  Position max_tokens = 96;
  std::vector<double> temperatures = {0, 1};  // T = 0 among them
  std::uint64_t seed = 1;
  double chain_share = 0.45;  // choose_exits.h
};

struct ExitResult {
  std::int32_t layer = 0;
  double named = 0, mean_confidence = 0;
  double error_before = 0, error = 0;     // expected calibration errors
  std::vector<ReliabilityBin> bins = {};  // after
  // Of the tokens that it named, along its walk: how many, and the part that the target chooses.
  std::int64_t tokens = 0;
  double token_agreement = 0;
  // Parts of the passes whose outcome it did not name, by what was wrong: it took fewer drafted
  // tokens than the target, more, or as many with another token behind them.
  double took_fewer = 0, took_more = 0, other_token = 0;
};

// One kind of text at one temperature.
struct TextResult {
  std::string text = {};
  double temperature = 0;
  std::int64_t passes = 0;
  double tokens_per_pass = 0;
  std::vector<ExitResult> exits = {};
  ExitResult best_at_half = {};  // the best exit after at most half of the layers
  double three_quarters = 0;     // part of the passes that any exit up to 3/4 depth named
  double chosen = 0;             // that any chosen exit named
  double error_chosen = 0;       // calibration error over all reports of chosen exits
};

struct MeasureReport {
  std::int32_t num_layers = 0;
  std::vector<std::int32_t> chosen = {};
  std::vector<TextResult> results = {};
};

// target, draft: run the passes; files: the target's. on_progress(done) counts replayed prompts:
// at each temperature those of `fit` twice, and those of `measure` once. Fills in calibration,
// measured, cost and chosen.
Result<MeasureReport> measure_exits(ExitAdapters& adapters, Model& target, const ModelFiles& files,
                                    Model& draft, const std::vector<ExitText>& texts,
                                    const MeasureOptions& options,
                                    const std::function<void(std::int64_t)>& on_progress);

// The same figures of adapters as they were committed: nothing is fitted, `texts` need no `fit`.
// The temperatures are those of the adapters' calibration, whatever `options` says; on_progress
// counts the prompts of each. Errors: kFailedPrecondition for adapters without calibration.
Result<MeasureReport> measure_committed(const ExitAdapters& adapters, Model& target,
                                        const ModelFiles& files, Model& draft,
                                        const std::vector<ExitText>& texts,
                                        const MeasureOptions& options,
                                        const std::function<void(std::int64_t)>& on_progress);

// --- measure_report.cc ---
std::string report_json(const MeasureReport& report);
// Part named right over confidence, one curve for each text and temperature, chosen exits together.
std::string reliability_svg(const MeasureReport& report);
// Part named right, and mean confidence (dashed), over the exit's layer (FSD, figure 7).
std::string depth_svg(const MeasureReport& report);

}  // namespace outrider
