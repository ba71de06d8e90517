// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/kv_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

#include "common/base/control_groups.h"
#include "common/engine/model/kv_pages.h"
#include "common/serving/cli/byte_size.h"

namespace outrider {
namespace {

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();
// Share of the free memory; the rest is for the system, buffers, and growth of other processes.
constexpr double kShare = 0.9;
// The process's own memory, except weights and KV caches.
constexpr std::int64_t kOwnNeeds = std::int64_t{256} << 20;
// A prompt of a line and a few sentences of answer.
constexpr std::int64_t kSmallestSession = 512;

std::optional<std::int64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  if (!(file >> value)) return std::nullopt;  // absent, or "max"
  return value;
}

std::int64_t available_memory(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  std::string field;
  std::int64_t kib = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    if (words >> field >> kib && field == "MemAvailable:") return kib << 10;
  }
  return kUnlimited;
}

// The bytes that a control group still allows; its page cache counts as free.
std::int64_t left_in_group(const std::string& folder, const char* limit, const char* usage) {
  const std::optional<std::int64_t> most = read_number(folder + limit);
  const std::optional<std::int64_t> used = read_number(folder + usage);
  if (!most || !used) return kUnlimited;
  std::int64_t cached = 0;
  std::ifstream stat(folder + "/memory.stat");
  std::string field;
  std::int64_t value = 0;
  while (stat >> field >> value) {
    if (field == "inactive_file" || field == "total_inactive_file") cached = value;
  }
  return std::max<std::int64_t>(*most - *used + cached, 0);
}

// The bytes that the tightest control group above the process still allows.
std::int64_t left_in_groups(const std::string& root) {
  std::int64_t left = kUnlimited;
  visit_control_groups("memory", root, [&](const std::string& folder, bool is_v2) {
    left = std::min(
        left, is_v2 ? left_in_group(folder, "/memory.max", "/memory.current")
                    : left_in_group(folder, "/memory.limit_in_bytes", "/memory.usage_in_bytes"));
  });
  return left;
}

// The bytes that the process may still map (ulimit -v).
std::int64_t left_to_map() {
  rlimit limit{};
  std::int64_t pages = 0;
  const bool bounded = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  if (!bounded || !(std::ifstream("/proc/self/statm") >> pages)) return kUnlimited;
  return std::max<std::int64_t>(
      static_cast<std::int64_t>(limit.rlim_cur) - pages * sysconf(_SC_PAGESIZE), 0);
}

std::string mib(std::int64_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

}  // namespace

std::int64_t smallest_session_bytes(const ModelInfo& model) {
  return std::min<std::int64_t>(kSmallestSession, model.max_positions) *
         model.kv_bytes_per_position;
}

std::int64_t free_memory(const std::string& root) {
  return std::min({available_memory(root), left_in_groups(root), left_to_map()});
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
    const auto left = std::max<std::int64_t>(free_bytes - model.weight_bytes - kOwnNeeds, 0);
    bytes = static_cast<std::int64_t>(static_cast<double>(left) * kShare);
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
