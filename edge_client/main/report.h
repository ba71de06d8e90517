// The figures at the end of an answer, for people and for machines. Definitions:
// edge_client/metrics/decoding_stats.h.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "edge_client/metrics/decoding_stats.h"
#include "edge_client/session/events.h"

namespace outrider {

// Bytes of messages to and from the server, of one answer.
struct LinkTraffic {
  std::uint64_t payload_up = 0;
  std::uint64_t payload_down = 0;
  std::uint64_t framed_up = 0;
  std::uint64_t framed_down = 0;

  friend LinkTraffic operator-(const LinkTraffic& after, const LinkTraffic& before) {
    return {after.payload_up - before.payload_up, after.payload_down - before.payload_down,
            after.framed_up - before.framed_up, after.framed_down - before.framed_down};
  }
};

struct AnswerReport {
  std::string text;
  std::vector<TokenId> ids;
  DecodingStats stats;
  Finish finish;
  std::string stop_string;             // that ended it; empty: none
  std::optional<LinkTraffic> traffic;  // nothing for a resident target

  std::string target;
  std::string draft;        // empty: none
  std::string strategy;     // "ar", "sd"
  std::string speculation;  // how it ended: "ON (..)", "OFF because .."
  bool paced = false;       // the draft's times are emulated
};

// "end of text", "stop string \"..\"", "length", ..
std::string why_stopped(const AnswerReport& report);

// Aligned lines, each ended.
std::string stats_block(const AnswerReport& report);

// One line without its end. Figures that are not known are null.
std::string stats_json(const AnswerReport& report);

}  // namespace outrider
