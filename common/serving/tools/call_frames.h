// The forms of answers with calls of tools: the marks of the model's form of calls around arguments
// that fit a schema.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/serving/tools/call_format.h"
#include "common/serving/tools/tool.h"

namespace outrider {

struct CallRule {
  std::string_view only = {};  // the tool of this name; empty: any
  bool only_strict = false;    // strict tools' arguments fit their schema, others are any object
  bool several = false;        // more calls may follow, where the form of calls has an end
  std::string instead = {};    // a schema, of which the answer may have a value instead
};

// An answer that is calls; kFramed's text. UNIMPLEMENTED for a form of calls that is no JSON.
Result<std::string> call_frames(const CallFormat& format, const Tools& tools, const CallRule& rule);

// An answer that may have calls in its text, by only_strict. Nothing: the text cannot be held to
// that, as calls have no mark that begins them all, or stand within a section, or are no JSON.
std::optional<std::string> call_frames_in_text(const CallFormat& format, const Tools& tools,
                                               bool several);

}  // namespace outrider
