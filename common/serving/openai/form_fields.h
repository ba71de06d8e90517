// The fields by which a request asks for a form of its answer: OpenAI's response_format, and the
// names of vLLM and llama.cpp for the same.
//
// Thread rule: pure functions. Errors: those of body_fields.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/engine/sampling/constraint.h"

namespace outrider {

struct FormField {
  std::string_view name;
  std::string_view type;  // of its value, as JSON schema names types; empty: an object or a text
  std::string_view description;
};
std::span<const FormField> form_fields();

struct AskedForm {
  ConstraintSpec spec = {};    // kind kNone: the answer may have any form
  std::string field = {};      // that asks for it
  bool is_text_asked = false;  // the request says that it may have any
};

// body: its keys in the client's order, as a schema's properties are written in that order. Refused
// where two fields ask for a form.
Result<AskedForm> read_form(const nlohmann::ordered_json& body);
// The form that another interface asks for in one object, {"format": {"type": ..}}, which stands in
// the place of all these fields. of: the object's field.
Result<AskedForm> read_text_form(const nlohmann::ordered_json& text, const std::string& of);

}  // namespace outrider
