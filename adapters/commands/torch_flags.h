// Flags that all commands with libtorch share. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "adapters/data/corpus.h"
#include "adapters/train/trainer.h"

namespace outrider {

struct ComputeFlags {
  std::string precision = "auto";
  int threads = 0;

  void add_to(CLI::App* command);
  // Sets libtorch's threads; returns the compute type.
  at::ScalarType apply() const;
};

// True if this CPU multiplies bf16 matrices in hardware (AMX or AVX512-BF16). Elsewhere libtorch's
// bf16 products are tens of times slower than f32.
bool cpu_has_bf16();

struct DataFlags {
  std::vector<std::string> data, answers, held_out;
  std::string chat_template;

  void add_to(CLI::App* command);
};

// Multiply-adds per second of a matrix product of a size that training has; a short measurement.
double product_rate(at::ScalarType compute);

// The flags of every training run: its directory, its schedule and its seed.
void add_run_flags(CLI::App* command, RunOptions& options);

// Everything that a run reads except models.
struct TrainData {
  std::vector<Source> sources;
  std::vector<HeldOut> held_out;
  TokenId end_of_text = 0;  // fills sequences; the end of a turn if the tokenizer has no such token
  TokenId end_of_turn = 0;
};

Result<TrainData> load_train_data(const DataFlags& flags, const Tokenizer& tokenizer,
                                  bool answers_only);

}  // namespace outrider
