// Runs a model at another device's pace; the laboratory's programs bring one along (bench/lab).
// Thread rule: pace() once, the rest from any thread while that model lives.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/model/model.h"

namespace outrider {

struct PaceCounts {
  std::int64_t passes = 0;
  std::int64_t overruns = 0;  // of these, those slower than the pace: no emulation
};

class ModelPacer {
 public:
  virtual ~ModelPacer() = default;

  // clock: outlives the model that is returned.
  virtual std::unique_ptr<Model> pace(std::unique_ptr<Model> model, Clock& clock) = 0;
  virtual PaceCounts counts() const = 0;
  // The pace in words: the milliseconds of a pass.
  virtual std::string about() const = 0;
};

}  // namespace outrider
