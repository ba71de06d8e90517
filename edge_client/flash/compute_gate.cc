// SPDX-License-Identifier: Apache-2.0
#include "edge_client/flash/compute_gate.h"

#include <chrono>
#include <span>
#include <utility>

#include "common/base/clock.h"

namespace outrider {
namespace {

// How soon a draft that waits notices that nobody wants its step any more.
constexpr Duration kLook = std::chrono::milliseconds(2);

class YieldingModel final : public Model {
 public:
  YieldingModel(std::unique_ptr<Model> model, ComputeGate& gate)
      : model_(std::move(model)), gate_(gate) {}

  const ModelInfo& info() const override { return model_->info(); }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override {
    return model_->new_pages(count);
  }
  Status forward(std::span<const Row> rows, PassOutput& out) override {
    const auto begin = std::chrono::steady_clock::now();
    gate_.wait_until_free([&out] { return out.is_abandoned(); });
    out.waited += std::chrono::steady_clock::now() - begin;
    return model_->forward(rows, out);
  }
  Status check_unchanged() const override { return model_->check_unchanged(); }

 private:
  const std::unique_ptr<Model> model_;
  ComputeGate& gate_;
};

}  // namespace

void ComputeGate::pass_computes(bool computes) {
  {
    const MutexLock lock(mu_);
    computes_ = computes;
  }
  if (!computes) freed_.notify_all();
}

void ComputeGate::wait_until_free(const std::function<bool()>& abandoned) {
  const MutexLock lock(mu_);
  while (computes_ && !abandoned()) {
    freed_.wait_until(mu_, std::chrono::steady_clock::now() + kLook);
  }
}

std::unique_ptr<Model> make_yielding_model(std::unique_ptr<Model> model, ComputeGate& gate) {
  return std::make_unique<YieldingModel>(std::move(model), gate);
}

}  // namespace outrider
