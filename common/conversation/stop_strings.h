// Ends a streamed text at the first of some strings, and shows nothing of that string.
//
// Text that may be the start of a stop string is held back until it is known not to be. The end
// is the stop string that is complete first; of several complete at the same byte the longest.
// So the outcome does not depend on how the text was cut into pieces.
//
//   StopStrings stops = *StopStrings::create({"\nUser:"});
//   show(stops.push(piece)); if (stops.stopped()) break; ... show(stops.finish());
//
// Thread rule: one object, one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace outrider {

class StopStrings final {
 public:
  // None means that nothing stops. Errors: kInvalidArgument for an empty string, for one that is
  // not UTF-8 or longer than kMaxStopBytes, and for more than kMaxStops.
  static Result<StopStrings> create(const std::vector<std::string>& stops);

  // The text that can be shown now. Once stopped, nothing more.
  std::string push(std::string_view text);

  // What was held back at the end of the answer.
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
    std::size_t matched = 0;            // bytes of `text` that end the input so far
    void step(char c);
  };

  std::size_t num_possible() const;

  std::vector<Automaton> automata_;
  std::string held_;
  std::optional<std::size_t> matched_;  // index of an automaton
};

}  // namespace outrider
