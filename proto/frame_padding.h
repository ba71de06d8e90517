// Pads messages to one size. Without padding, sizes reveal how many drafted tokens were accepted,
// and so part of the text, even under TLS (docs/deploy.md).
//
// A padded message has zeros in its `padding` field up to the next multiple of kPaddedBytes. A
// filler has nothing but padding; it makes the number of messages constant.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace outrider {

inline constexpr std::size_t kPaddedBytes = 256;

// A padded edge sends at least so many messages for each pass, fillers included.
inline constexpr int kPaddedMessagesPerPass = 4;

// bytes: a serialized EdgeMessage or ServerMessage.
void pad_frame(std::string& bytes);

bool is_filler(std::string_view bytes);

}  // namespace outrider
