// Files that hold secrets, or decide who is trusted.
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace outrider {

inline constexpr std::size_t kLongestSecret = 512;  // characters

// The text of a regular file of at most 1 MiB that only its owner and its group may read and only
// they may write. Errors: NOT_FOUND if it is not there; FAILED_PRECONDITION, with the remedy, if
// its mode is another, or this program may not read it; UNAVAILABLE if it changes meanwhile.
Result<std::string> read_private_file(const std::string& path);

// The same for a file that holds no secret: everybody may read it, but not write it.
Result<std::string> read_trusted_file(const std::string& path);

// The first line of a private file, without blanks or a byte order mark around it: one secret,
// which may stand in a header. INVALID_ARGUMENT, which never shows it, if the line is empty, has
// more than kLongestSecret characters, or one that is no printable ASCII.
Result<std::string> read_secret(const std::string& path);

// Adds a line to a private file, whole or not at all, whatever happens meanwhile: the new text gets
// a file of its own, which takes the old one's place, owner and mode. A file that is not there is
// made; where its folder is closed to others and open to a group, as /etc/outrider is, that group
// may read it. Two that add at one time wait for each other. Errors name the file and the remedy.
Status append_to_private_file(const std::string& path, std::string_view line);

// Whether gRPC and HTTP take these bytes as a header's value: printable ASCII. gRPC ends the
// process that hands it others.
bool is_header_value(std::string_view value);

}  // namespace outrider
