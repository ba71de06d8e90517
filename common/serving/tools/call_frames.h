// The form of an answer that is one call of a tool, for where a client says that it must be one.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/serving/tools/call_format.h"
#include "common/serving/tools/tool.h"

namespace outrider {

// A list of [TEXT, SCHEMA, TEXT], one for each tool, or for the one of this name: the marks of the
// model's form of calls around the arguments. UNIMPLEMENTED for a form whose arguments are no JSON.
Result<std::string> call_frames(const CallFormat& format, const Tools& tools,
                                std::string_view only);

}  // namespace outrider
