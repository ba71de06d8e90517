// Copies values from a device to the host while the device computes.
//
// Thread rule: the thread that runs the model. Errors: throws std::runtime_error with the device's
// reason. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace outrider {

class HostCopies {
 public:
  virtual ~HostCopies() = default;

  // Queues a copy of `count` values. It begins when the work queued so far is done; work queued
  // later does not wait for it. `from`, in the device's memory, must stay valid until clear().
  virtual void queue(const float* from, std::size_t count) = 0;
  // The copy number `index` since clear(), valid until then; blocks until it is complete.
  virtual std::span<const float> wait(std::size_t index) = 0;
  // Whether all that is queued for the model is done; does not block.
  virtual bool is_model_done() const = 0;
  // Blocks until all copies are complete, and forgets them.
  virtual void clear() = 0;
};

// On a stream of the lowest priority, into pinned memory. Only in programs built with CUDA.
std::unique_ptr<HostCopies> make_cuda_copies();

}  // namespace outrider
