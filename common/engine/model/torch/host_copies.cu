// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/torch/host_copies.h"

#include <cuda_runtime.h>

#include <memory>
#include <utility>
#include <vector>

#include "common/engine/model/torch/cuda_check.h"

namespace outrider {
namespace {

// A reusable buffer in pinned memory, with events for the begin and the end of its copy.
class PinnedCopy final {
 public:
  PinnedCopy() {
    check_cuda(cudaEventCreateWithFlags(&begin_, cudaEventDisableTiming));
    check_cuda(cudaEventCreateWithFlags(&end_, cudaEventDisableTiming));
  }
  ~PinnedCopy() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
    cudaFreeHost(values_);
  }
  PinnedCopy(const PinnedCopy&) = delete;
  PinnedCopy& operator=(const PinnedCopy&) = delete;

  // The model computes on the default stream, for which a non-blocking stream does not wait by
  // itself.
  void queue(const float* from, std::size_t count, cudaStream_t stream) {
    reserve(count);
    count_ = count;
    check_cuda(cudaEventRecord(begin_, nullptr));
    check_cuda(cudaStreamWaitEvent(stream, begin_, 0));
    check_cuda(
        cudaMemcpyAsync(values_, from, count * sizeof(float), cudaMemcpyDeviceToHost, stream));
    check_cuda(cudaEventRecord(end_, stream));
  }

  std::span<const float> wait() const {
    check_cuda(cudaEventSynchronize(end_));
    return {values_, count_};
  }

 private:
  void reserve(std::size_t count) {
    if (count <= capacity_) return;
    check_cuda(cudaFreeHost(std::exchange(values_, nullptr)));
    capacity_ = 0;
    check_cuda(cudaMallocHost(reinterpret_cast<void**>(&values_), count * sizeof(float)));
    capacity_ = count;
  }

  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  float* values_ = nullptr;
  std::size_t capacity_ = 0, count_ = 0;
};

class CudaCopies final : public HostCopies {
 public:
  CudaCopies() {
    int least = 0, greatest = 0;
    check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    check_cuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, least));
  }
  ~CudaCopies() override {
    cudaStreamSynchronize(stream_);
    copies_.clear();
    cudaStreamDestroy(stream_);
  }
  CudaCopies(const CudaCopies&) = delete;
  CudaCopies& operator=(const CudaCopies&) = delete;

  void queue(const float* from, std::size_t count) override {
    if (queued_ == copies_.size()) copies_.push_back(std::make_unique<PinnedCopy>());
    copies_[queued_]->queue(from, count, stream_);
    ++queued_;
  }
  std::span<const float> wait(std::size_t index) override { return copies_.at(index)->wait(); }
  bool is_model_done() const override { return cudaStreamQuery(nullptr) != cudaErrorNotReady; }
  void clear() override {
    check_cuda(cudaStreamSynchronize(stream_));
    queued_ = 0;
  }

 private:
  cudaStream_t stream_ = nullptr;
  std::vector<std::unique_ptr<PinnedCopy>> copies_;
  std::size_t queued_ = 0;
};

}  // namespace

std::unique_ptr<HostCopies> make_cuda_copies() {
  return std::make_unique<CudaCopies>();
}

}  // namespace outrider
