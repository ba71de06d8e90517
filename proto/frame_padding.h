// Messages of one size, for those who do not want the sizes on the wire to tell what is written:
// how many drafted tokens stood gives text away even under TLS (docs/deploy.md).
//
// A padded message is the message, and zeros in its `padding` field up to the next multiple of
// kPaddedBytes. A filler is such a message of zeros alone; it says nothing and fills up a count.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace outrider {

inline constexpr std::size_t kPaddedBytes = 256;

// What a padded edge sends for each pass at least, fillers included.
inline constexpr int kPaddedMessagesPerPass = 4;

// bytes: a serialized EdgeMessage or ServerMessage.
void pad_frame(std::string& bytes);

bool is_filler(std::string_view bytes);

}  // namespace outrider
