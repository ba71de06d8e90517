// The wire form of messages.h: structs to protobuf bytes and back (proto/outrider/v1).
//
// Bytes are not trusted: every count, id, position, enum, length and float is checked here, so that
// parsed values have the ranges of their types. The session checks whether they are valid in its
// state (vocabulary, known parents, `end`). Parse errors are INVALID_ARGUMENT and name field, value
// and what was expected.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/decoding/protocol/messages.h"
#include "common/decoding/protocol/target_description.h"

namespace outrider {

// Overhead of gRPC (5: flag and length) and HTTP/2 (9: a DATA frame's header) for each message.
inline constexpr std::size_t kFramingBytes = 14;

// Both sides refuse a larger message before they parse it.
inline constexpr std::size_t kMaxMessageBytes = 1 << 20;

// The most nodes of one Grow. The session's limit of living nodes is far lower.
inline constexpr std::size_t kMaxNodesPerGrow = 4096;

std::string serialize(const EdgeMessage& message);
std::string serialize(const ServerMessage& message);

// Limit of a Measure call's padding, in each direction.
inline constexpr std::size_t kMaxMeasuredBytes = 256 << 10;

// A request for a reply of so many bytes, with so many of its own; and the reply.
std::string serialize_measure_request(std::uint32_t reply_bytes, std::size_t padding_bytes);
Result<std::string> measure_reply(std::string_view request);

// A Describe call. The request has no fields yet.
std::string serialize(const TargetDescription& target);
Status check_describe_request(std::string_view request);
Result<TargetDescription> parse_target_description(std::string_view reply);

Result<EdgeMessage> parse_edge_message(std::string_view bytes);
Result<ServerMessage> parse_server_message(std::string_view bytes);

}  // namespace outrider
