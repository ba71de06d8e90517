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

// Which requests have a field: bit i is of the Api with the number i.
enum class FieldUse : std::uint8_t {
  kCompletion = 1,
  kChat = 2,
  kResponse = 4,
  kMessage = 8,
  kChoices = kCompletion | kChat,
  kOpenaiChat = kChat | kResponse,
  kConversation = kOpenaiChat | kMessage,
  kOpenai = kChoices | kResponse,
  kAll = kOpenai | kMessage,
};

struct RequestField {
  std::string_view name;
  FieldUse use = FieldUse::kAll;
  nlohmann::ordered_json schema = {};  // of its value: a JSON schema with type and bounds
  std::string_view description = {};
  // Errors: those of body_fields.h. Not called with null, which says nothing, except of seed.
  std::function<Status(const Json& value, CompletionRequest& request)> read = {};

  bool is_used(Api api) const {
    return ((static_cast<unsigned>(use) >> static_cast<unsigned>(api)) & 1u) != 0;
  }
};

std::span<const RequestField> request_fields();
// Null: such requests have no field of that name.
const RequestField* find_request_field(std::string_view name, Api api);

}  // namespace outrider
