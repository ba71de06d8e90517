// The parts of parse_config() (config.h): each reads some fields of config.json into the config. In
// the order read_kinds(), read_rope(), read_windows(), after the shape.
//
// Thread rule: one reader, one thread. Errors: as config.h. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/base/status.h"
#include "common/engine/model/format/architecture.h"
#include "common/engine/model/format/config_fields.h"

namespace outrider {

// Kinds of blocks, biases, scales, caps, experts.
Status read_kinds(FieldReader& fields, const ModelFamily& family, ModelConfig& config);

// The rotations; may lower max_positions.
Status read_rope(FieldReader& fields, const ModelFamily& family, ModelConfig& config);

// How the matrices are quantised, if they are.
Status read_quantization(FieldReader& fields, ModelConfig& config);

// Windows, and which layers have which rotation.
Status read_windows(FieldReader& fields, const ModelFamily& family, ModelConfig& config);

// Each `period`th of Gemma's layers sees all positions, the others have a window, and in Gemma 3 a
// rotation of their own. Of SmolLM3's each `period`th does not rotate.
bool is_gemma(const ModelConfig& config);
std::int64_t gemma_period(const ModelConfig& config);
void set_gemma_layers(Position window, std::int64_t period, ModelConfig& config);
void set_smollm3_layers(std::int64_t period, ModelConfig& config);

// Checks what the readers of config.json and of GGUF files have read.
Status check_experts(const ModelConfig& config, const std::string& what);

// How long-rope and YaRN change the attention where a file does not say it.
double yarn_attention_factor(double factor);
double longrope_attention_factor(double factor, Position original_positions);

}  // namespace outrider
