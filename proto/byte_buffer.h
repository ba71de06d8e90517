// Converts bytes to gRPC's buffers and back, and holds the settings that both sides' channels
// share.
//
// Both sides exchange raw bytes with gRPC and call the codec themselves: a malformed message then
// gets an answer that names the error. gRPC's own parsing would only end the stream.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <chrono>
#include <string>

namespace outrider {

inline constexpr const char* kGenerateMethod = "/outrider.v1.Outrider/Generate";
inline constexpr const char* kMeasureMethod = "/outrider.v1.Outrider/Measure";
inline constexpr const char* kDescribeMethod = "/outrider.v1.Outrider/Describe";
inline constexpr const char* kServiceName = "outrider.v1.Outrider";
// By these headers of a call a proxy before several servers chooses one. Outrider's servers do not
// read them.
// It repeats Open.session_key: a reconnect of an answer finds the server of the stream before.
inline constexpr const char* kSessionMetadata = "outrider-session";
// The hash of the prompt's first page of tokens: prompts that begin alike find the server that has
// their keys and values.
inline constexpr const char* kPrefixMetadata = "outrider-prefix";
// How many streams of this answer have ended before a server took it, if there were any: the next
// one should go to another server.
inline constexpr const char* kAttemptMetadata = "outrider-attempt";

// Both sides ping at the same rate, so that neither counts the other's pings as an attack, and a
// silently broken link is detected within half a minute.
inline constexpr std::chrono::milliseconds kKeepaliveTime{20'000};
inline constexpr std::chrono::milliseconds kKeepaliveTimeout{10'000};
// The server counts faster pings as strikes; half the client's interval leaves room for jitter.
inline constexpr std::chrono::milliseconds kMinPingInterval{10'000};

grpc::ByteBuffer to_buffer(const std::string& bytes);
std::string to_bytes(const grpc::ByteBuffer& buffer);

}  // namespace outrider
