// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/kv_memory.h"

#include <algorithm>
#include <optional>

#include "common/base/free_memory.h"
#include "common/engine/model/kv_pages.h"
#include "common/serving/cli/byte_size.h"

namespace outrider {
namespace {

// A prompt of a line and a few sentences of answer.
constexpr std::int64_t kSmallestSession = 512;

std::string mib(std::int64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

}  // namespace

std::int64_t smallest_session_bytes(const ModelInfo& model) {
  return std::min<std::int64_t>(kSmallestSession, model.max_positions) *
         model.kv_bytes_per_position;
}

Status check_kv_memory(Model& model, std::int64_t bytes) {
  const std::int64_t page_bytes = model.info().kv_bytes_per_position * KvPages::kRows;
  if (bytes <= 0 || page_bytes == 0 || model.info().most_kv_pages > 0) return {};
  const std::int64_t count = std::clamp<std::int64_t>(bytes / page_bytes, 1, KvPages::kMost);
  const Status status = model.new_pages(static_cast<std::int32_t>(count)).status();
  return status.ok() ? status
                     : status.with_context("--kv-cache-memory, " + mib(bytes) +
                                           " (Remedy: less, or a higher ulimit -v)");
}

Result<std::int64_t> kv_cache_bytes(const std::string& asked, const ModelInfo& model,
                                    std::int64_t free_bytes) {
  if (model.kv_bytes_per_position == 0) return std::int64_t{0};  // nothing to bound
  // Where the model's device bounds its pages, the host's memory says nothing of them.
  const std::int64_t on_device =
      model.most_kv_pages * std::int64_t{KvPages::kRows} * model.kv_bytes_per_position;
  std::int64_t bytes = 0;
  if (asked == "auto" && on_device > 0) {
    bytes = on_device;
  } else if (asked == "auto") {
    bytes = room_beside_program(free_bytes - model.weight_bytes);
  } else {
    const std::optional<std::int64_t> parsed = parse_byte_size(asked);
    if (!parsed) {
      return invalid_argument("--kv-cache-memory " + printable(asked) +
                              ": must be auto, or bytes like 500M, 12G");
    }
    bytes = *parsed;
    if (on_device > 0 && bytes > on_device) {
      return invalid_argument("--kv-cache-memory " + asked + ": the device has room for " +
                              mib(on_device) + " beside the weights. Remedy: less, or auto");
    }
  }
  const std::int64_t least = smallest_session_bytes(model);
  if (bytes >= least) return bytes;
  const StatusCode code =
      asked == "auto" ? StatusCode::kResourceExhausted : StatusCode::kInvalidArgument;
  return Status(
      code, "--kv-cache-memory " + asked + ": " + mib(bytes) +
                " is less than one session of this model needs, " + mib(least) + " (" +
                std::to_string(model.kv_bytes_per_position >> 10) +
                " KiB a token); give it more memory, or use --kv-dtype bf16 or a smaller model");
}

}  // namespace outrider
