// SPDX-License-Identifier: Apache-2.0
#include <random>

#include "proto/codec.h"
#include "proto/outrider/v1/outrider.pb.h"

namespace outrider {
namespace {

Status check_size(const char* field, std::size_t bytes) {
  if (bytes <= kMaxMeasuredBytes) return {};
  return invalid_argument(std::string(field) + ": " + std::to_string(bytes) + " bytes; at most " +
                          std::to_string(kMaxMeasuredBytes));
}

// Bytes that nothing on the way can compress.
std::string padding_of(std::size_t bytes) {
  std::mt19937 random;
  std::string padding(bytes, '\0');
  for (char& byte : padding) byte = static_cast<char>(random());
  return padding;
}

}  // namespace

std::string serialize_measure_request(std::uint32_t reply_bytes, std::size_t padding_bytes) {
  v1::MeasureRequest request;
  request.set_reply_bytes(reply_bytes);
  request.set_padding(padding_of(padding_bytes));
  return request.SerializeAsString();
}

Result<std::string> measure_reply(std::string_view request) {
  v1::MeasureRequest asked;
  if (!asked.ParseFromArray(request.data(), static_cast<int>(request.size()))) {
    return invalid_argument("MeasureRequest: bytes that are no such message");
  }
  OUTRIDER_RETURN_IF_ERROR(check_size("MeasureRequest.padding", asked.padding().size()));
  OUTRIDER_RETURN_IF_ERROR(check_size("MeasureRequest.reply_bytes", asked.reply_bytes()));
  v1::MeasureReply reply;
  reply.set_padding(padding_of(asked.reply_bytes()));
  return reply.SerializeAsString();
}

}  // namespace outrider
