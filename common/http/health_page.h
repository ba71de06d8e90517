// Is a program alive, is it ready, which one is it: the pages that supervisors and load balancers
// ask for.
//
//   /health/live   200 while its work comes to an end: else start it anew
//   /health/ready  200 while new requests are welcome
//   /version       JSON
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "common/http/message.h"

namespace outrider {

struct Health {
  bool alive = true;
  bool ready = true;
  std::string version = {};
  std::string model_name = {};
};

// Nothing for another path.
std::optional<HttpResponse> health_page(const std::string& path, const Health& health);

}  // namespace outrider
