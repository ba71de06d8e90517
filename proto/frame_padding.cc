// SPDX-License-Identifier: Apache-2.0
#include "proto/frame_padding.h"

namespace outrider {
namespace {

// Field 15 of both messages, of type length-delimited, and its length, always in two bytes.
constexpr char kPaddingTag = 15 << 3 | 2;
constexpr std::size_t kHeaderBytes = 3;
static_assert(kPaddedBytes <= 1 << 14, "the length has two bytes");

}  // namespace

void pad_frame(std::string& bytes) {
  const std::size_t frames = (bytes.size() + kHeaderBytes + kPaddedBytes - 1) / kPaddedBytes;
  const std::size_t zeros = frames * kPaddedBytes - bytes.size() - kHeaderBytes;
  bytes.push_back(kPaddingTag);
  bytes.push_back(static_cast<char>((zeros & 0x7f) | 0x80));
  bytes.push_back(static_cast<char>(zeros >> 7));
  bytes.append(zeros, '\0');
}

bool is_filler(std::string_view bytes) {
  return !bytes.empty() && bytes.front() == kPaddingTag;
}

}  // namespace outrider
