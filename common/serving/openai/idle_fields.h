// Fields of requests that other servers know and this one does not need: those that cannot change
// the text, and values that ask for nothing.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "common/base/json.h"

namespace outrider {

// A field, and a value with which a request is the same as without it.
struct IdleValue {
  const char* field;
  Json value;
};
std::span<const IdleValue> idle_values();

// Whether the field asks for nothing: by such a value, or by an empty list or object.
bool asks_for_nothing(std::string_view field, const Json& value);

// The fields that cannot change the text, whatever their value.
std::span<const std::string_view> ignored_fields();
bool cannot_change_text(std::string_view field);

}  // namespace outrider
