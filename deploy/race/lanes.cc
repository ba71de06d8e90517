// SPDX-License-Identifier: Apache-2.0
#include "deploy/race/lanes.h"

#include <algorithm>
#include <utility>

namespace outrider {
namespace {

constexpr std::string_view kJsonBegins = "\n{\"";

bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

}  // namespace

std::string text_tail(std::string_view text, std::size_t width) {
  if (text.size() > width) {
    text.remove_prefix(text.size() - width);
    while (!text.empty() && continues_character(text.front())) text.remove_prefix(1);
  }
  std::string tail(text);
  std::ranges::replace_if(
      tail, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, ' ');
  return tail;
}

Lanes::Lanes(std::vector<std::string> names, std::size_t width)
    : names_(std::move(names)), width_(width), printed_(names_.size()) {
  for (const std::string& name : names_) longest_name_ = std::max(longest_name_, name.size());
}

void Lanes::add(std::size_t lane, std::string_view printed) {
  const MutexLock lock(mutex_);
  printed_[lane] += printed;
}

std::vector<std::string> Lanes::lines() const {
  const MutexLock lock(mutex_);
  std::vector<std::string> lines;
  const std::size_t taken = longest_name_ + 2;
  for (std::size_t lane = 0; lane < names_.size(); ++lane) {
    const std::string_view printed = printed_[lane];
    std::string line = names_[lane];
    line.resize(taken, ' ');
    lines.push_back(line + text_tail(printed.substr(0, printed.find(kJsonBegins)),
                                     width_ > taken ? width_ - taken : 0));
  }
  return lines;
}

}  // namespace outrider
