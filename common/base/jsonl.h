// Files of one JSON object a line. Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "common/base/json.h"
#include "common/base/status.h"

namespace outrider {

// Calls body(object, "path:line") for every line that is not blank, until one fails.
Status for_each_line(const std::string& path,
                     const std::function<Status(const Json&, const std::string&)>& body);

// Errors: kDataLoss naming `where` and the field.
Result<std::string> string_field(const Json& object, const char* field, const std::string& where);

}  // namespace outrider
