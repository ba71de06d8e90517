// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/device/start_check.h"

#include <stdexcept>
#include <utility>
#include <vector>

#include "common/engine/model/cuda/cases/kernel_cases.h"

namespace outrider::cuda {
namespace {

constexpr std::int64_t kMemory = 32 << 20;  // of one case
constexpr int kPoison = 0xc5;

// The cases' memory: pieces of one allocation on the device.
class ApiMemory final : public gpu::CaseMemory {
 public:
  ApiMemory(DeviceApi& api, DeviceMemory memory, int device)
      : api_(api),
        memory_(std::move(memory)),
        stream_(api.new_stream(device)),
        done_(api.new_event(device)) {}

  Stream stream() const { return stream_; }
  const Status& status() const { return status_; }

  std::byte* allocate(std::size_t bytes) override {
    const std::int64_t end = used_ + (static_cast<std::int64_t>(bytes) + 255) / 256 * 256;
    if (end > memory_.bytes()) throw std::logic_error("a case of the start is too large");
    std::byte* const to = memory_.data() + used_;
    used_ = end;
    write(to, std::vector<std::byte>(bytes, static_cast<std::byte>(kPoison)));
    return to;
  }
  void write(std::byte* to, std::span<const std::byte> bytes) override {
    api_.upload(to, bytes.data(), std::ssize(bytes), stream_);
    wait();
  }
  void read(const std::byte* from, std::span<std::byte> bytes) override {
    api_.download(bytes.data(), from, std::ssize(bytes), stream_);
    wait();
  }
  void clear() override { used_ = 0; }

 private:
  void wait() {
    api_.signal(done_, stream_);
    const Status waited = api_.synchronize(done_);
    if (status_.ok()) status_ = waited;
  }

  DeviceApi& api_;
  const DeviceMemory memory_;
  const Stream stream_;
  const Event done_;
  Status status_;
  std::int64_t used_ = 0;
};

void add(const gpu::CaseResult& result, StartCheck& check) {
  check.outputs += result.outputs;
  check.different += result.different;
  if (result.different > 0 && check.first.empty()) check.first = result.name;
}

Status check_device(DeviceApi& api, int device, StartCheck& check) {
  OUTRIDER_ASSIGN_OR_RETURN(DeviceMemory room,
                            DeviceMemory::make(api, MemoryKind::kDevice, kMemory, device));
  ApiMemory memory(api, std::move(room), device);
  api.use(device);
  std::uint64_t seed = 1;
  const auto context = [&] {
    return gpu::CaseContext{kernels_for(best_vector_target()), memory, seed++, memory.stream()};
  };
  for (const gpu::WeightKind& kind : gpu::weight_kinds()) {
    for (const std::int64_t rows : {1, 13, 34}) {  // each way to cut a product
      add(gpu::check_product(context(), kind, {rows, {40, 17}, 300}), check);
    }
    add(gpu::check_product(context(), kind, {2, {40}, 96, 300}), check);
  }
  for (const gpu::CaseResult& result : gpu::check_rows(context(), 3, 300)) add(result, check);
  for (const bool is_bf16 : {false, true}) {
    add(gpu::check_placement(context(), 3, {4, 2, 64}, is_bf16), check);
    add(gpu::check_attention(context(), {{4, 2, 64}, 3, 1100, 0, is_bf16}), check);
  }
  add(gpu::check_choices(context(), 12, 3000), check);
  return memory.status();
}

}  // namespace

Result<StartCheck> check_kernels(DeviceApi& api) {
  StartCheck check;
  for (int device = 0; device < api.devices(); ++device) {
    OUTRIDER_RETURN_IF_ERROR(check_device(api, device, check));
  }
  return check;
}

}  // namespace outrider::cuda
