// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/device/device_heads.h"

#include <algorithm>
#include <utility>

#include "common/engine/model/cuda/device/device_upload.h"

namespace outrider::cuda {
namespace {

// The most bytes of a head's logits on the host: 55 rows of a vocabulary of 151,936 tokens.
constexpr std::int64_t kMaxLogitBytes = std::int64_t{32} << 20;

std::int64_t row_bytes(std::int64_t columns) {
  return columns * static_cast<std::int64_t>(sizeof(float));
}

}  // namespace

Result<std::unique_ptr<DeviceHeads>> DeviceHeads::make(DeviceApi& api, const LayerHeads& heads,
                                                       std::int64_t hidden, std::int64_t max_rows) {
  std::unique_ptr<DeviceHeads> made(new DeviceHeads(api, hidden));
  OUTRIDER_RETURN_IF_ERROR(made->upload(heads));
  OUTRIDER_RETURN_IF_ERROR(made->allocate(max_rows));
  return made;
}

DeviceHeads::DeviceHeads(DeviceApi& api, std::int64_t hidden)
    : api_(api), hidden_(hidden), stride_(pad_to_lanes(hidden)) {}

// Heads may share a matrix, which the device then has once.
Status DeviceHeads::upload(const LayerHeads& heads) {
  DeviceUpload device(api_, 0, weights_);
  epsilon_ = heads.epsilon;
  OUTRIDER_ASSIGN_OR_RETURN(final_norm_, device.floats(heads.final_norm));
  std::map<const void*, WeightMatrix> outputs;
  for (const LayerHead& from : heads.heads) {
    Head& head = heads_[from.layer];
    OUTRIDER_ASSIGN_OR_RETURN(head.norm, device.floats(from.norm));
    if (head.norm != nullptr) {
      OUTRIDER_ASSIGN_OR_RETURN(head.down, device.matrix(from.down));
      OUTRIDER_ASSIGN_OR_RETURN(head.up, device.matrix(from.up));
    }
    const auto [shared, is_new] = outputs.try_emplace(from.output.data);
    if (is_new) {
      OUTRIDER_ASSIGN_OR_RETURN(shared->second, device.matrix(from.output));
    }
    head.output = shared->second;
  }
  return {};
}

Status DeviceHeads::allocate(std::int64_t max_rows) {
  std::int64_t most_rows = 0, most_logits = 0, widest = 0;
  for (auto& [layer, head] : heads_) {
    const std::int64_t tokens = head.output.outputs;
    head.max_rows = std::clamp<std::int64_t>(kMaxLogitBytes / row_bytes(tokens), 1, max_rows);
    most_rows = std::max(most_rows, head.max_rows);
    most_logits = std::max(most_logits, head.max_rows * row_bytes(tokens));
    OUTRIDER_ASSIGN_OR_RETURN(
        head.host, DeviceMemory::make(api_, MemoryKind::kHost, head.max_rows * row_bytes(tokens)));
    if (head.norm == nullptr) continue;
    const std::int64_t inner = pad_to_lanes(head.down.outputs);
    widest = std::max(widest, inner);
    OUTRIDER_ASSIGN_OR_RETURN(head.inner, DeviceMemory::make(api_, MemoryKind::kDevice,
                                                             head.max_rows * row_bytes(inner)));
  }
  const auto scratch = [&](DeviceMemory& memory, std::int64_t bytes) -> Status {
    OUTRIDER_ASSIGN_OR_RETURN(memory, DeviceMemory::make(api_, MemoryKind::kDevice, bytes));
    return {};
  };
  OUTRIDER_RETURN_IF_ERROR(scratch(logits_, most_logits));
  OUTRIDER_RETURN_IF_ERROR(scratch(quantized_, most_rows * quantized_row_bytes(hidden_)));
  OUTRIDER_RETURN_IF_ERROR(scratch(normed_, most_rows * row_bytes(stride_)));
  OUTRIDER_RETURN_IF_ERROR(scratch(ones_, std::max<std::int64_t>(most_rows * widest, 1) * 4));
  const Stream stream = api_.new_stream();
  const Event done = api_.new_event();
  const std::vector<float> ones(static_cast<std::size_t>(ones_.bytes() / 4), 1.0f);
  api_.use(0);
  api_.upload(ones_.data(), ones.data(), ones_.bytes(), stream);
  for (const auto& [layer, head] : heads_) {
    if (head.norm == nullptr) continue;
    api_.fill_zero(head.inner.data(), head.inner.bytes(), stream);
  }
  api_.signal(done, stream);
  return api_.synchronize(done);
}

bool DeviceHeads::computes(std::int32_t layer, std::int64_t rows) const {
  const auto found = heads_.find(layer);
  return found != heads_.end() && rows <= found->second.max_rows;
}

void DeviceHeads::record(std::int32_t layer, float* hidden, std::int64_t rows, Stream stream) {
  const Head& head = heads_.at(layer);
  api_.use(0);
  if (head.norm != nullptr) adapt(head, hidden, rows, stream);
  norm_and_quantize({hidden, rows, hidden_, stride_}, final_norm_, epsilon_, nullptr,
                    quantized_.data(), stream);
  const std::int64_t tokens = head.output.outputs;
  const Product output{head.output, {logits_.as<float>(), tokens}};
  multiply(&output, 1, {rows, stride_, nullptr, quantized_.data()}, stream);
  api_.download(head.host.data(), logits_.data(), rows * row_bytes(tokens), stream);
}

void DeviceHeads::adapt(const Head& head, float* hidden, std::int64_t rows, Stream stream) {
  const std::int64_t count = head.down.outputs, inner = pad_to_lanes(count);
  norm_and_quantize({hidden, rows, hidden_, stride_}, head.norm, epsilon_, normed_.as<float>(),
                    nullptr, stream);
  const Product down{head.down, {head.inner.as<float>(), inner}};
  multiply(&down, 1, {rows, stride_, normed_.as<float>(), nullptr}, stream);
  silu_and_quantize({head.inner.as<float>(), rows, count, inner}, ones_.as<float>(), nullptr,
                    stream);
  const Product up{head.up, {hidden, stride_, nullptr, true}};
  multiply(&up, 1, {rows, inner, head.inner.as<float>(), nullptr}, stream);
}

}  // namespace outrider::cuda
