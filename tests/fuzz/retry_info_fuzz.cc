// The details of a server's error status: any bytes give a delay within bounds, or none.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string>

#include "proto/grpc_status.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string details(reinterpret_cast<const char*>(data), size);
  const auto delay =
      outrider::retry_delay(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full", details));
  if (!delay) return 0;
  OUTRIDER_CHECK(*delay >= outrider::Duration{0} && *delay < std::chrono::seconds(3601));
  return 0;
}
