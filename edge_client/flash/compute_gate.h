// Keeps a draft from taking the cores while a streamed target computes: it works while a pass waits
// for its reads and between passes, and yields to the pass's compute.
//
//   target: pass_computes(true) .. pass_computes(false)     around what it computes
//   draft:  wait_until_free(abandoned)                      before each pass of its own
//
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "common/base/mutex.h"
#include "common/engine/model/model.h"

namespace outrider {

class ComputeGate final {
 public:
  void pass_computes(bool computes);
  // Returns when no pass computes, or when `abandoned` says true.
  void wait_until_free(const std::function<bool()>& abandoned);

 private:
  Mutex mu_;
  CondVar freed_;
  bool computes_ OUTRIDER_GUARDED_BY(mu_) = false;
};

// A model whose passes wait at the gate. gate outlives it.
std::unique_ptr<Model> make_yielding_model(std::unique_ptr<Model> model, ComputeGate& gate);

}  // namespace outrider
