// The files of a training run beside the model: metrics as JSONL and a loss plot as SVG. No
// libtorch.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace outrider {

struct HeldOutResult {
  double loss = 0;   // mean over answer tokens, nats
  double exact = 0;  // share of the answers that greedy decoding reproduces exactly

  friend bool operator==(const HeldOutResult&, const HeldOutResult&) = default;
};

struct StepMetrics {
  std::int64_t step = 0;  // counts from 1
  double loss = 0;
  double learning_rate = 0;
  double gradient_norm = 0;
  double tokens_per_s = 0;
  std::map<std::string, HeldOutResult> held_out;  // on some steps only

  friend bool operator==(const StepMetrics&, const StepMetrics&) = default;
};

// metrics.jsonl of a run: one line per step.
class MetricsFile final {
 public:
  // Keeps the lines of an earlier part of the run up to `steps_kept`, and drops the others.
  static Result<MetricsFile> open(const std::string& path, std::int64_t steps_kept);

  // RESOURCE_EXHAUSTED if it cannot be written.
  Status append(const StepMetrics& metrics);
  const std::vector<StepMetrics>& all() const { return all_; }

 private:
  std::string path_;
  std::ofstream out_;
  std::vector<StepMetrics> all_;
};

Result<std::vector<StepMetrics>> read_metrics(const std::string& path);

// Training loss (smoothed) and held-out losses over steps.
std::string loss_plot_svg(const std::vector<StepMetrics>& metrics, const std::string& title);

}  // namespace outrider
