// Exit adapters of a target model: each exit has a small bottleneck between the residual stream and
// the target's own final norm and output matrix (after Venkatesha, Kundu and Panda 2025, section
// 3).
//
//   y      = h + up(silu(down(rms_norm(h) * norm)))
//   logits = head(rms_norm(y) * final_norm)             head and final_norm: the target's, frozen
//
// An exit may have a head of its own instead, and then y = h: LEVER's linear predictor (section
// 4.3, eq. 7), which prunes trees (docs/pruning.md).
//
// Two files: adapters.safetensors has the weights. adapters.json has everything else, with the
// digest of the weights and the fingerprint of the target, so that mismatched files are detected.
//
// Thread rule: values and free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/decoding/exits/calibration.h"
#include "common/engine/model/model.h"

namespace outrider {

inline constexpr const char* kAdapterIndexFile = "adapters.json";
inline constexpr const char* kAdapterWeightsFile = "adapters.safetensors";

// How often an exit was right on held-out text.
struct ExitMeasurement {
  std::string text = {};  // the text, for instance the held-out file's name
  double temperature = 0;
  std::int64_t passes = 0;
  double named = 0;               // share of the passes whose whole outcome it named
  double mean_confidence = 0;     // after calibration
  double error_uncalibrated = 0;  // expected calibration error of the row margins' softmax
  double error = 0;               // expected calibration error after calibration
};

struct ExitAdapter {
  std::int32_t layer = 0;                // layers passed: 1 .. num_layers - 1
  std::int32_t bottleneck = 0;           // 0 with a head of its own, else at least 1
  std::vector<std::uint16_t> head = {};  // [tokens considered, hidden] bf16; empty: the target's
  std::vector<float> norm = {};          // [hidden]; this and the next two: only with a bottleneck
  std::vector<std::uint16_t> down = {};  // [bottleneck, hidden] bf16
  std::vector<std::uint16_t> up = {};    // [hidden, bottleneck] bf16
  double cost = 0;  // measured, as a share of the time of a pass of five rows; 0: not measured
  std::vector<Calibration> calibration = {};  // one per temperature, T = 0 among them; or empty
  std::vector<ExitMeasurement> measured = {};
};

struct ExitAdapters {
  std::string fingerprint = {};  // of the target
  std::int32_t hidden_size = 0;
  std::int32_t num_layers = 0;
  std::int32_t vocab_size = 0;
  std::vector<TokenId> shortlist = {};    // the tokens that exits consider, rising; empty: all
  std::vector<ExitAdapter> exits = {};    // by layer, rising; at least one
  std::vector<std::int32_t> chosen = {};  // layers that "auto" takes, rising
};

// Whether an exit has no output matrix of its own and reads the target's.
bool reads_target_s_head(const ExitAdapters& adapters);

// The number of tokens that its exits consider.
std::int64_t considered_tokens(const ExitAdapters& adapters);

// Small random adapters, for tests and for measuring costs.
ExitAdapters random_adapters(const ModelInfo& target, std::span<const std::int32_t> layers,
                             std::int32_t bottleneck, std::uint64_t seed);

// FAILED_PRECONDITION unless the adapters were made for this target.
Status check_target(const ExitAdapters& adapters, const ModelInfo& target);

// Keeps only the exits of `wanted`: "auto" (the chosen ones), "all", or layers as "3,6,9".
// INVALID_ARGUMENT names a layer that has no adapter, and those that have one.
Result<ExitAdapters> select_exits(ExitAdapters adapters, std::string_view wanted);

// --- files (adapter_file.cc) ---

// Reads both files of `directory`, which are not trusted. Errors: NOT_FOUND if there is no
// adapters.json; else those of parse_adapter_index() and attach_adapter_weights(), naming the file.
Result<ExitAdapters> load_adapters(const std::string& directory);
// Parses the contents of both files; what: their location, for errors.
Result<ExitAdapters> parse_adapters(std::string_view index, std::span<const std::byte> weights,
                                    const std::string& what);
// Writes both files, each completely or not at all.
Status save_adapters(const std::string& directory, const ExitAdapters& adapters);

// Takes the weights from a safetensors file's bytes. DATA_LOSS if they do not have the digest
// `digest`, or if a tensor is missing, unknown, of another type or shape, or holds NaN or infinity.
Status attach_adapter_weights(ExitAdapters& adapters, std::span<const std::byte> file,
                              const std::string& digest, const std::string& what);

// --- adapters.json (adapter_index.cc) ---

struct AdapterIndex {
  ExitAdapters adapters;       // without weights
  std::string weights_digest;  // SHA-256 of adapters.safetensors, hex
};

// INVALID_ARGUMENT or DATA_LOSS naming field and value; unknown fields are refused.
Result<AdapterIndex> parse_adapter_index(std::string_view text, const std::string& what);
std::string adapter_index_text(const AdapterIndex& index);

}  // namespace outrider
