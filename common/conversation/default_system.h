// What a ChatML template says as the system where a conversation does not.
//
// Thread rule: a pure function. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace outrider {

// `source`: a template's Jinja text. The message is the text between the markers of a system's
// turn, where the template writes it out, or the one that it sets a variable "..system.." to.
// Empty if it has none. Jinja is not run: only its texts are looked at.
std::string default_system_message(std::string_view source);

}  // namespace outrider
