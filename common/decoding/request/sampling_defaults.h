// Sampling defaults: the values in a model's generation_config.json, which hold where requests and
// flags give none; and flags, which need not give all.
//
//   const GenerationDefaults said = *read_generation_defaults("models/target");
//   SamplingParams sampling = with_defaults({}, said.sampling);
//
// Thread rule: values and pure functions; read_generation_defaults() reads a file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/enum_names.h"
#include "common/base/status.h"
#include "common/engine/sampling/sampling.h"

namespace outrider {

// The fields of SamplingParams; an empty one was not given.
struct SamplingDefaults {
  std::optional<float> temperature = {};
  std::optional<std::int32_t> top_k = {};
  std::optional<float> top_p = {};
  std::optional<float> min_p = {};

  bool empty() const { return *this == SamplingDefaults(); }
  // Whether nothing is left to say: all is said, or a temperature of 0, with which no filter has an
  // effect.
  bool is_whole() const;

  friend bool operator==(const SamplingDefaults&, const SamplingDefaults&) = default;
};

// The given values replace those of `standing`.
SamplingParams with_defaults(SamplingParams standing, const SamplingDefaults& said);

// All of these said.
SamplingDefaults all_of(const SamplingParams& sampling);

// "temperature 0.7, top_k 20"; empty: nothing is said.
std::string to_text(const SamplingDefaults& said);

struct GenerationDefaults {
  SamplingDefaults sampling = {};
  // Further settings in the file that are not supported and left out, such as
  // "repetition_penalty 1.05"; empty: there are none.
  std::string left_out = {};

  // "temperature 0.7, top_k 20 (generation_config.json; left out: repetition_penalty 1.05)"; empty:
  // it says nothing.
  std::string about() const;
};

// Whether a target's file counts.
enum class GenerationConfigUse : std::uint8_t { kNone, kAuto };

template <>
inline constexpr auto enum_names<GenerationConfigUse> =
    std::to_array<EnumName<GenerationConfigUse>>({{GenerationConfigUse::kAuto, "auto"},
                                                  {GenerationConfigUse::kNone, "none"}});

inline constexpr char kGenerationConfigFile[] = "generation_config.json";

// `text` is such a file's, `what` names it. `do_sample: false` is temperature 0, `true` without a
// temperature is temperature 1, as in transformers. Values out of their range are left out. Errors:
// those of parse_json().
Result<GenerationDefaults> parse_generation_defaults(std::string_view text,
                                                     const std::string& what);

// Reads the file in a model's directory. A GGUF file has none.
Result<GenerationDefaults> read_generation_defaults(const std::string& model);

}  // namespace outrider
