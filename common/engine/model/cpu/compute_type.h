// The types in which a model's matrices are computed, from `--dtype` and the stored types.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/engine/model/cpu/kernels/kernels.h"
#include "common/engine/model/format/model_files.h"

namespace outrider {

// kAuto: each matrix as stored.
enum class ComputeType : std::uint8_t { kAuto, kF32, kBf16, kInt8, kInt4 };

// "auto", "f32", "bf16", "int8" or "int4"; else INVALID_ARGUMENT.
Result<ComputeType> parse_compute_type(std::string_view name);
std::string_view to_string(ComputeType type);

// kInt8 or kInt4 for a model of blocks that kAuto computes as that type does, so that the same
// arithmetic has one name; kBf16 for a quantised directory that the kernels do not hold as it is;
// else kAuto.
ComputeType settle_auto(const ModelFiles& files);

// A note for the user on the precision that a quantised directory loses by its conversion; empty if
// none.
std::string conversion_note(const ModelFiles& files, ComputeType wanted);

// The type and shape in which a matrix is computed; data is where it is stored. is_output: it makes
// logits, which int4 leaves at int8.
WeightMatrix computed_matrix(const TensorView& source, ComputeType wanted, bool is_output);

// Whether the kernels can read the matrix directly from the mapping.
bool is_as_stored(const TensorView& source, const WeightMatrix& matrix);

}  // namespace outrider
