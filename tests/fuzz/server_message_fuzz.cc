// Messages of a server, on a stream and about its target: parsing never crashes, and an accepted
// message survives a round trip.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "proto/codec.h"

namespace outrider {
namespace {

void describe(std::string_view bytes) {
  const Result<TargetDescription> target = parse_target_description(bytes);
  if (!target.ok()) return;
  const Result<TargetDescription> again = parse_target_description(serialize(*target));
  OUTRIDER_CHECK(again.ok());
  OUTRIDER_CHECK(*again == *target);
}

}  // namespace
}  // namespace outrider

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using outrider::ServerMessage;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  outrider::describe(bytes);
  const outrider::Result<ServerMessage> message = outrider::parse_server_message(bytes);
  if (!message.ok()) return 0;
  const std::string written = outrider::serialize(*message);
  const outrider::Result<ServerMessage> again = outrider::parse_server_message(written);
  OUTRIDER_CHECK(again.ok());
  OUTRIDER_CHECK(outrider::serialize(*again) == written);
  return 0;
}
