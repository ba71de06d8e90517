// A GPU: its memory, and how long work takes on it.
//
// Thread rule: one thread. Errors: std::runtime_error with CUDA's reason.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/engine/model/cuda/cases/case_memory.h"

namespace outrider::gpu {

// Throws unless the driver's code is success.
void require_cuda(int code, const char* what);

struct DeviceFacts {
  std::string name;
  int multiprocessors = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t cache_bytes = 0;  // L2
  int driver = 0;                // version
};
// Those of GPU 0, which is the thread's current one.
DeviceFacts device_facts();

// Pieces of one allocation, with filled gaps between them that read() finds changed.
class CudaMemory final : public CaseMemory {
 public:
  explicit CudaMemory(std::size_t bytes);
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;
  ~CudaMemory() override;

  std::byte* allocate(std::size_t bytes) override;
  void write(std::byte* to, std::span<const std::byte> bytes) override;
  void read(const std::byte* from, std::span<std::byte> bytes) override;
  void clear() override;
  // Without filling it.
  std::byte* reserve(std::size_t bytes);

  std::int64_t changed_gaps() const { return changed_gaps_; }

 private:
  void check_gaps();

  std::byte* begin_ = nullptr;
  std::size_t bytes_;
  std::size_t used_ = 0;
  std::vector<std::byte*> gaps_;
  std::int64_t changed_gaps_ = 0;
};

// The median seconds of what `work` puts into a stream, run as one graph: at least `seconds` of
// runs behind a first one.
double median_seconds(const std::function<void(void* stream)>& work, double seconds);

}  // namespace outrider::gpu
