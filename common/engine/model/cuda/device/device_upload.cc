// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/device/device_upload.h"

#include <utility>

#include "common/engine/model/cuda/kernels/lane_panels.h"

namespace outrider::cuda {

Status check_readable(const WeightMatrix& matrix) {
  if (matrix.type != WeightType::kQuantized || has_kernels(matrix.format)) return {};
  return unimplemented(
      "device cuda: has no kernels for blocks of the types IQ4_NL, IQ4_XS, Q2_K and Q3_K. "
      "Remedy: --dtype int8, or a file of another type");
}

Result<WeightMatrix> DeviceUpload::matrix(const WeightMatrix& from) {
  WeightMatrix to = from;
  if (from.outputs == 0) return to;
  OUTRIDER_RETURN_IF_ERROR(check_readable(from));
  const void* data = from.data;
  const std::int64_t count = device_bytes(from);
  if (from.type != WeightType::kQuantized) {
    panels_.resize(static_cast<std::size_t>(count));
    write_lane_panels(from, panels_.data());
    data = panels_.data();
  }
  OUTRIDER_ASSIGN_OR_RETURN(to.data, bytes(data, count));
  return to;
}

Result<const float*> DeviceUpload::floats(std::span<const float> from) {
  if (from.empty()) return nullptr;
  OUTRIDER_ASSIGN_OR_RETURN(const std::byte* data,
                            bytes(from.data(), static_cast<std::int64_t>(from.size_bytes())));
  return reinterpret_cast<const float*>(data);
}

Result<const std::byte*> DeviceUpload::bytes(const void* from, std::int64_t count) {
  OUTRIDER_ASSIGN_OR_RETURN(DeviceMemory memory,
                            DeviceMemory::make(api_, MemoryKind::kDevice, count, device_));
  const std::byte* const data = memory.data();
  api_.upload(memory.data(), from, count, stream_);
  api_.signal(done_, stream_);
  OUTRIDER_RETURN_IF_ERROR(api_.synchronize(done_));
  memory_.push_back(std::move(memory));
  return data;
}

}  // namespace outrider::cuda
