// The reference of OpenAI's routes as an OpenAPI document, made of the table that reads requests.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

namespace outrider {

nlohmann::ordered_json openapi_document();

}  // namespace outrider
