// A model on another device than the CPU that computes levels of itself (docs/elastic.md):
// make_level() and make_leveled_model() of cpu_model.h ask it.
//
// Thread rule: as model.h. Ownership: the model outlives its levels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "common/base/status.h"
#include "common/engine/model/format/elastic_table.h"
#include "common/engine/model/model.h"

namespace outrider {

class ElasticDevice {
 public:
  virtual ~ElasticDevice() = default;

  // Null: it was loaded without a level table.
  virtual std::shared_ptr<const ElasticTable> table() const = 0;
  // level: outlives what is made.
  virtual Result<std::unique_ptr<Model>> make_level(const ElasticLevel& level) = 0;
  virtual Result<std::unique_ptr<Model>> make_leveled_model() = 0;
};

}  // namespace outrider
