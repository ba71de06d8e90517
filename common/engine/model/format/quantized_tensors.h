// Finds the tensors of a quantised matrix among those of a directory, and checks them.
//
// Thread rule: free functions. Errors: DATA_LOSS and UNIMPLEMENTED naming tensor, value and remedy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/engine/model/format/stored_tensors.h"
#include "common/engine/model/format/tensor_view.h"

namespace outrider {

// The model's tensors in `stored`, a matrix called `name` in the directory, if the directory holds
// it quantised; their parts are then removed from `left`. Empty if it does not. Reads the scales
// and zero points.
Result<std::vector<std::pair<std::string, TensorView>>> take_quantized(
    const StoredTensor& stored, const std::string& name, const StoredQuantization& quantization,
    TensorMap& left);

// Whether the tensor may be left out, since the output is the same without it: scales of
// activations, which are not quantised here, and a bias of zeros, which old GPTQ files have.
bool is_without_effect(const std::string& name, const TensorView& tensor,
                       const StoredQuantization& quantization);

}  // namespace outrider
