// Liveness, readiness and version: the pages that supervisors and load balancers read.
//
//   /health/live   200 also while the program shuts down; otherwise restart it
//   /health/ready  200 while new requests are accepted
//   /version       JSON; by a server's arithmetic_id a balancer leaves out one with other bits
//
// Thread rule: a value. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/serving/http/routes.h"

namespace outrider {

struct Health {
  bool alive = true;
  bool ready = true;
  std::string version = {};
  std::string model_name = {};
  // The fingerprint of a model that this program computes; empty if it is not published.
  std::string fingerprint = {};
  std::string arithmetic_id = {};
};

// The page of /health/ready.
HttpResponse ready_page(const Health& health);

// now: called on the server's thread.
std::vector<HttpRoute> health_routes(const std::function<Health()>& now);

}  // namespace outrider
