// Ends a streamed text before the first of some stop strings.
//
// Text that may be the start of a stop string is held back until that is decided. The stop string
// that is complete first ends the text; of several complete at the same byte the longest. So the
// outcome does not depend on how the text was cut into pieces.
//
//   StopStrings stops = *StopStrings::create({"\nUser:"});
//   show(stops.push(piece)); if (stops.stopped()) break; ... show(stops.finish());
//
// Thread rule: one object, one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace outrider {

class StopStrings final {
 public:
  // An empty list never stops. Errors: kInvalidArgument for an empty string, for one that is not
  // UTF-8 or longer than kMaxStopBytes, and for more than kMaxStops.
  static Result<StopStrings> create(const std::vector<std::string>& stops);

  // The text that can be shown now; empty once stopped.
  std::string push(std::string_view text);

  // Ends the answer; returns the text that was held back.
  std::string finish();

  bool stopped() const { return matched_.has_value(); }
  // The stop string that ended the text; only when stopped().
  const std::string& matched() const;

  static constexpr std::size_t kMaxStops = 64;
  static constexpr std::size_t kMaxStopBytes = 4096;

 private:
  // Knuth, Morris and Pratt's automaton for one string.
  struct Automaton {
    std::string text;
    std::vector<std::size_t> fallback;  // [i]: longest border of the first i bytes
    // The bytes of `text` that end the input, one byte after there were `matched` of them.
    std::size_t step(std::size_t matched, char c) const;
  };

  std::size_t num_possible() const;

  std::shared_ptr<const std::vector<Automaton>> automata_;  // shared by copies
  std::vector<std::size_t> states_;  // of each automaton: the bytes that end the input so far
  std::string held_;
  std::optional<std::size_t> matched_;  // index of an automaton
};

}  // namespace outrider
