// Messages of an edge: parsing never crashes, and an accepted message survives a round trip.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "proto/codec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using outrider::EdgeMessage;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const outrider::Result<EdgeMessage> message = outrider::parse_edge_message(bytes);
  if (!message.ok()) return 0;
  const std::string written = outrider::serialize(*message);
  const outrider::Result<EdgeMessage> again = outrider::parse_edge_message(written);
  OUTRIDER_CHECK(again.ok());
  OUTRIDER_CHECK(outrider::serialize(*again) == written);
  return 0;
}
