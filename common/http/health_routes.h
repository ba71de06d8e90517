// Is a program alive, is it ready, which one is it: the pages that supervisors and load balancers
// ask for.
//
//   /health/live   200 while its work comes to an end: else start it anew
//   /health/ready  200 while new requests are welcome
//   /version       JSON
//
// Thread rule: a value. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/http/routes.h"

namespace outrider {

struct Health {
  bool alive = true;
  bool ready = true;
  std::string version = {};
  std::string model_name = {};
};

// The page of /health/ready.
HttpResponse ready_page(const Health& health);

// now: called on the server's thread.
std::vector<HttpRoute> health_routes(const std::function<Health()>& now);

}  // namespace outrider
