// Chat templates that have a name of their own: what `--chat-template chatml` means, for models
// that bring none along, or a wrong one.
//
// Jinja texts of ours, which write what the models' own templates of these families write: each was
// held against theirs over 40 conversations (tests/golden/make_chat_goldens.py).
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace outrider {

// Nothing: no template has this name.
std::optional<std::string> named_chat_template(std::string_view name);
// All names, for messages: "chatml, qwen2, ..".
std::string chat_template_names();

}  // namespace outrider
