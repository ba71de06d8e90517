// SPDX-License-Identifier: Apache-2.0
#include "common/serving/conversation/stop_strings.h"

#include <algorithm>

#include "common/engine/text/pipeline/utf8.h"

namespace outrider {

Result<StopStrings> StopStrings::create(const std::vector<std::string>& stops) {
  if (stops.size() > kMaxStops) {
    return invalid_argument("stop: " + std::to_string(stops.size()) + " strings, at most " +
                            std::to_string(kMaxStops));
  }
  std::vector<Automaton> automata;
  for (const std::string& stop : stops) {
    if (stop.empty() || stop.size() > kMaxStopBytes || !is_utf8(stop)) {
      return invalid_argument("stop: a string of " + std::to_string(stop.size()) +
                              " bytes; UTF-8 of 1 to " + std::to_string(kMaxStopBytes) +
                              " bytes is needed");
    }
    Automaton automaton{stop, {0, 0}};
    for (std::size_t i = 1; i < stop.size(); ++i) {
      std::size_t border = automaton.fallback[i];
      while (border > 0 && stop[border] != stop[i]) border = automaton.fallback[border];
      automaton.fallback.push_back(stop[border] == stop[i] ? border + 1 : 0);
    }
    automata.push_back(std::move(automaton));
  }
  StopStrings result;
  result.states_.resize(automata.size());
  result.automata_ = std::make_shared<const std::vector<Automaton>>(std::move(automata));
  return result;
}

// Call only while `matched` is less than the whole text.
std::size_t StopStrings::Automaton::step(std::size_t matched, char c) const {
  while (matched > 0 && text[matched] != c) matched = fallback[matched];
  return text[matched] == c ? matched + 1 : matched;
}

// Bytes at the end of held_ that may belong to a stop string.
std::size_t StopStrings::num_possible() const {
  return states_.empty() ? 0 : *std::ranges::max_element(states_);
}

std::string StopStrings::push(std::string_view text) {
  if (stopped()) return {};
  for (const char c : text) {
    held_ += c;
    for (std::size_t i = 0; i < states_.size(); ++i) {
      const Automaton& automaton = (*automata_)[i];
      states_[i] = automaton.step(states_[i], c);
      const std::size_t size = automaton.text.size();
      if (states_[i] == size && (!matched_ || size > matched().size())) matched_ = i;
    }
    if (!matched_) continue;
    std::string shown = held_.substr(0, held_.size() - matched().size());
    held_.clear();
    return shown;
  }
  const std::size_t certain = held_.size() - num_possible();
  std::string shown = held_.substr(0, certain);
  held_.erase(0, certain);
  return shown;
}

std::string StopStrings::finish() {
  return std::exchange(held_, std::string());
}

const std::string& StopStrings::matched() const {
  OUTRIDER_CHECK(matched_.has_value());
  return (*automata_)[*matched_].text;
}

}  // namespace outrider
