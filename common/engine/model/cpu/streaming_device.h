// The interface between layers that are read during each pass and a device, other than the CPU,
// that computes them: the device keeps the first layers and the output matrix in its own memory,
// and takes each other layer from a LayerStore in every pass.
//
//   DeviceNeeds needs = *device.needs(weights);                // to divide a memory budget
//   auto model = *device.make({std::move(weights), 3, open});  // the device keeps three layers
//
// Thread rule: needs() and make() from any thread, one at a time; what make() gives is as model.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/engine/model/cpu/cpu_weights.h"
#include "common/engine/model/cpu/layer_store.h"
#include "common/engine/model/model.h"

namespace outrider {

// Copies weights to where they stay. What it is given is valid during the call only.
class LayerKeeper {
 public:
  virtual ~LayerKeeper() = default;
  virtual Status keep(std::int64_t layer, const CpuLayer& weights) = 0;
  virtual Status keep_head(const LinearWeights& head) = 0;
};

struct LayerSource {
  CpuWeights weights;            // with norms and biases; the matrices are not read
  std::int64_t kept_layers = 0;  // the first ones
  // Gives the keeper these layers and the output matrix, in any order; then the store of a pass's
  // layers, whose matrices of the kept ones are not read. Called once.
  using Open = std::function<Result<std::unique_ptr<LayerStore>>(LayerKeeper& keeper)>;
  Open open;
};

// The bytes that a streamed model takes beside its weights, on the device and on the host.
struct DeviceNeeds {
  std::uint64_t keys_and_values = 0;
  std::uint64_t scratch = 0;          // inputs, activations and results of a pass
  std::uint64_t buffers = 0;          // through which layers that are not kept come to the device
  std::vector<std::uint64_t> layers;  // a kept layer's matrices; the last one: the output matrix
};

struct StreamingDevice {
  std::string name;  // "cuda", for messages
  // Errors: UNIMPLEMENTED naming what the device does not compute; FAILED_PRECONDITION if this
  // program was built without it.
  std::function<Result<DeviceNeeds>(const CpuWeights& weights)> needs;
  // Errors: those of needs(), of the source and of the device.
  std::function<Result<std::unique_ptr<Model>>(LayerSource source)> make;
};

}  // namespace outrider
