// Runs a model at another device's pace; implemented by the programs of bench/lab. Thread rule:
// pace() once, the rest from any thread during that model's life.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/engine/model/model.h"

namespace outrider {

struct PaceCounts {
  std::int64_t passes = 0;
  std::int64_t overruns = 0;  // passes that were slower than the pace: not emulated
};

class ModelPacer {
 public:
  virtual ~ModelPacer() = default;

  // clock: outlives the returned model.
  virtual std::unique_ptr<Model> pace(std::unique_ptr<Model> model, Clock& clock) = 0;
  virtual PaceCounts counts() const = 0;
  // A description of the pace: the milliseconds of a pass.
  virtual std::string about() const = 0;
};

}  // namespace outrider
