// A model on a device beside the cpu backend: the rows of the rows check (bench/rows) in every way,
// whose logits must have the CPU's bits, and how long passes take.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/engine/model/cuda/device/device_api.h"

namespace outrider::gpu {

struct ModelCheckOptions {
  std::string model = {};  // a directory, or a GGUF file
  std::vector<std::string> dtypes = {"auto"};
  int cases = 2;              // of 14
  int layers = 0;             // only the first ones; 0: all
  bool answers = false;       // a prompt of 128 rows, a tree of 33, and 8 tokens one by one
  bool measures = false;      // passes of 1, 8 and 64 rows behind 1,000 positions
  std::int64_t kv_bytes = 0;  // 0: as the backend chooses
};

// One row for each dtype: compared, mismatches, whether the arithmetic ids are equal, and the
// milliseconds of passes by rows.
struct ModelCheck {
  nlohmann::json rows = nlohmann::json::array();
  bool holds = true;
};
using DeviceMaker = std::function<Result<std::unique_ptr<cuda::DeviceApi>>()>;
Result<ModelCheck> check_model(const ModelCheckOptions& options, const DeviceMaker& make_device);

}  // namespace outrider::gpu
