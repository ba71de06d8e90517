// Files that hold secrets or decide who is trusted. Thread rule: any thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace outrider {

inline constexpr std::size_t kLongestSecret = 512;  // characters

// The text of a regular file of at most 1 MiB that only its owner and its group may read, and only
// they may write. Errors: NOT_FOUND; FAILED_PRECONDITION, with the remedy, if its mode differs or
// this program may not read it; UNAVAILABLE if it changes while it is read.
Result<std::string> read_private_file(const std::string& path);

// Like read_private_file(), for a file without secrets: every user may read it, but not write it.
Result<std::string> read_trusted_file(const std::string& path);

// The first line of a private file, without blanks or a byte order mark around it: one secret that
// can be sent in a header. INVALID_ARGUMENT if the line is empty, has more than kLongestSecret
// characters, or one that is not printable ASCII. Errors never show the line.
Result<std::string> read_secret(const std::string& path);

// Replaces the text of a private file by what `edit` makes of it, completely or not at all
// (common/base/output_file.h). A missing file has no text and is created; where its folder is
// closed to other users and open to a group, as /etc/outrider is, that group may read it.
// Concurrent calls wait for each other. Errors are those of `edit`, or name the file and the
// remedy.
using TextEdit = std::function<Result<std::string>(const std::string& text)>;
Status edit_private_file(const std::string& path, const TextEdit& edit);

// Whether gRPC and HTTP accept these bytes as a header's value: printable ASCII. gRPC aborts the
// process that passes other bytes.
bool is_header_value(std::string_view value);

}  // namespace outrider
