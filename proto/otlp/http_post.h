// One HTTP request with a body, for exports that need no connection kept open.
//
// Thread rule: any thread; blocks. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace outrider {

struct HttpPost {
  Address server;
  bool tls = false;  // the system's authorities are trusted
  std::string path;
  std::string content_type;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  Duration timeout{0};  // of all of it
};

// The reply's body. UNAVAILABLE if it cannot be had, or its status is not 2xx; DEADLINE_EXCEEDED;
// CANCELLED when a stop was requested.
Result<std::string> http_post(const HttpPost& post, const std::stop_token& stop);

}  // namespace outrider
