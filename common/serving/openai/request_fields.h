// The fields of a request, one row each: how a row's value is read, and what its reference says of
// it (docs/http.md, /openapi.json). So neither can lag.
//
// Thread rule: constant. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "common/base/json.h"
#include "common/base/status.h"
#include "common/serving/openai/completion_request.h"

namespace outrider {

enum class FieldUse : std::uint8_t { kBoth, kChat, kCompletion };

struct RequestField {
  std::string_view name;
  FieldUse use = FieldUse::kBoth;
  nlohmann::ordered_json schema = {};  // of its value: a JSON schema with type and bounds
  std::string_view description = {};
  // Errors: those of body_fields.h. Not called with null, which says nothing, except of seed.
  std::function<Status(const Json& value, CompletionRequest& request)> read = {};

  bool is_used(bool is_chat) const {
    return use == FieldUse::kBoth || (use == FieldUse::kChat) == is_chat;
  }
};

std::span<const RequestField> request_fields();
// Null: such requests have no field of that name.
const RequestField* find_request_field(std::string_view name, bool is_chat);

}  // namespace outrider
