// SPDX-License-Identifier: Apache-2.0
#include "bench/scenario/value_list.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

namespace outrider {
namespace {

constexpr std::size_t kMaxValues = 1000;

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

// first-last or first-last+step; nothing if the text is none.
struct Range {
  double first = 0;
  double last = 0;
  double step = 1;
};

std::optional<Range> range_of(std::string_view text) {
  const std::size_t dash = text.find('-', 1);
  if (dash == std::string_view::npos || text[dash - 1] == 'e') return std::nullopt;
  const std::size_t plus = text.find('+', dash);
  const auto first = number(text.substr(0, dash));
  const auto last =
      number(text.substr(dash + 1, plus == std::string_view::npos ? plus : plus - dash - 1));
  const auto step = plus == std::string_view::npos ? 1.0 : number(text.substr(plus + 1));
  if (!first || !last || !step) return std::nullopt;
  return Range{*first, *last, *step};
}

Status add_range(const Range& range, const std::string& where, std::vector<double>& values) {
  if (range.last < range.first) return invalid_argument(where + ": the range falls");
  if (range.step <= 0) return invalid_argument(where + ": the step must be above 0");
  const double count = std::floor((range.last - range.first) / range.step + 1e-9) + 1;
  if (count > static_cast<double>(kMaxValues)) {
    return invalid_argument(where + ": more than " + std::to_string(kMaxValues) + " values");
  }
  for (int i = 0; i < static_cast<int>(count); ++i) values.push_back(range.first + i * range.step);
  return {};
}

Status check(const std::vector<double>& values, const std::string& where,
             const ValueBounds& bounds) {
  if (values.size() > kMaxValues) {
    return invalid_argument(where + ": more than " + std::to_string(kMaxValues) + " values");
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < bounds.least || values[i] > bounds.most) {
      return invalid_argument(fmt::format("{}: {:.9g} is not from {:.9g} to {:.9g}", where,
                                          values[i], bounds.least, bounds.most));
    }
    if (std::find(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(i), values[i]) !=
        values.begin() + static_cast<std::ptrdiff_t>(i)) {
      return invalid_argument(fmt::format("{}: {:.9g} stands twice", where, values[i]));
    }
  }
  return {};
}

}  // namespace

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> words;
  std::size_t begin = 0;
  while (true) {
    const std::size_t comma = text.find(',', begin);
    std::string word = text.substr(begin, comma == std::string::npos ? comma : comma - begin);
    word.erase(0, word.find_first_not_of(' '));
    word.erase(word.find_last_not_of(' ') + 1);
    words.push_back(std::move(word));
    if (comma == std::string::npos) return words;
    begin = comma + 1;
  }
}

Result<std::vector<double>> parse_values(const std::string& text, const std::string& flag,
                                         const ValueBounds& bounds) {
  const std::string where = flag + " " + text;
  std::vector<double> values;
  for (const std::string& word : split_list(text)) {
    if (const auto value = number(word)) {
      values.push_back(*value);
    } else if (const auto range = range_of(word)) {
      OUTRIDER_RETURN_IF_ERROR(add_range(*range, where, values));
    } else {
      return invalid_argument(where + ": '" + word +
                              "' is no number and no range (FIRST-LAST or FIRST-LAST+STEP)");
    }
  }
  OUTRIDER_RETURN_IF_ERROR(check(values, where, bounds));
  return values;
}

Result<std::vector<int>> parse_whole_values(const std::string& text, const std::string& flag,
                                            const ValueBounds& bounds) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<double> values, parse_values(text, flag, bounds));
  std::vector<int> whole;
  for (const double value : values) {
    if (value != std::floor(value)) {
      return invalid_argument(fmt::format("{} {}: {:.9g} is no whole number", flag, text, value));
    }
    whole.push_back(static_cast<int>(value));
  }
  return whole;
}

}  // namespace outrider
