// How a chat template writes tools and calls, found by letting it write a call that is known.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "common/base/status.h"
#include "common/serving/conversation/chat_template.h"
#include "common/serving/tools/call_format.h"

namespace outrider {

struct TemplateCalls {
  const CallFormat* format = nullptr;
  bool arguments_are_text = false;  // the template wants arguments as JSON text, not as an object
  bool writes_calls = true;         // else it leaves an answer's calls out
};

// format_name: of call_formats(), overrides what the template shows; empty: the template decides.
// Errors, with the remedy: UNIMPLEMENTED for a template that does not write tools, or calls in no
// form of the table; INVALID_ARGUMENT for an unknown name.
Result<TemplateCalls> calls_of_template(const ChatTemplate& chat, std::string_view format_name);

// The calls of an answer as a template that leaves them out would have to write them.
std::string write_calls(const CallFormat& format, const nlohmann::ordered_json& calls);

}  // namespace outrider
