// A run's report.json, read again.
//
// Thread rule: reads files, else pure. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/json.h"
#include "common/base/status.h"

namespace outrider {

// INVALID_ARGUMENT where this is no report of this version, with an array of cells. name: of the
// file.
Status check_report(const Json& report, const std::string& name);

// NOT_FOUND, or INVALID_ARGUMENT as above.
Result<Json> read_report(const std::string& path);

}  // namespace outrider
