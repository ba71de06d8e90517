// Built-in chat templates: the names of `--chat-template`, such as chatml, for models without a
// template or with a wrong one.
//
// They are Jinja texts of ours that write what the families' own templates write: each was compared
// with theirs over 40 conversations (tests/golden/make_chat_goldens.py).
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace outrider {

// Nothing for an unknown name.
std::optional<std::string> named_chat_template(std::string_view name);
// All names, for messages: "chatml, qwen2, ..".
std::string chat_template_names();

}  // namespace outrider
