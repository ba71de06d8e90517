// The fields of a request's body: how they are read, and how they are refused, in words for people
// and by the codes by which OpenAI's clients tell refusals apart.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/json.h"
#include "common/base/status.h"

namespace outrider {

// The body's JSON object. INVALID_ARGUMENT for text that is none, and for a key that is repeated.
Result<Json> parse_body(std::string_view body);

// Refusals; each names the field. INVALID_ARGUMENT for a value that is wrong, UNIMPLEMENTED for a
// field, or a value of it, that is not supported.
Status wrong(std::string_view field, const std::string& expected);
Status wrong(std::string_view field, const std::string& expected, const Json& value);
Status missing(std::string_view field);
Status unsupported(std::string_view field);

// Reads a value within its range; else wrong().
Status read_number(const Json& value, std::string_view field, double least, double most,
                   double& out);
// 16.0 counts as whole, because some clients have one type of number only.
Status read_integer(const Json& value, std::string_view field, std::int64_t least,
                    std::int64_t& out);
Status read_bool(const Json& value, std::string_view field, bool& out);

}  // namespace outrider
