// Checks the Host and Origin headers, so that web pages of other sites, open in a browser on this
// machine, cannot use the server.
//
// A site can let its own name resolve to this machine (DNS rebinding). Then its pages may send and
// read anything here, but the Host header contains that name. A page's origin is in Origin;
// programs other than browsers send none.
//
// Pages of other origins are admitted by name (CORS): then their browser lets them read the answer.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/serving/http/message.h"

namespace outrider {

struct HostRules {
  // Accepted host names, in addition to loopback names and addresses, which no site can imitate;
  // "*": any.
  std::vector<std::string> allowed = {};
  // Whether requests without Origin may use any name, as programs in a network do.
  bool any_name_without_origin = false;
  // Origins of other sites whose pages may send requests and read answers, as
  // "https://app.example" or "null"; "*": any.
  std::vector<std::string> allowed_origins = {};
};

// INVALID_ARGUMENT for an origin that no browser sends.
Status check_origins(const std::vector<std::string>& origins);

// PERMISSION_DENIED, with the remedy, for a Host that is not allowed, and for an Origin that is
// neither allowed nor this server's. Behind a proxy that ends TLS, X-Forwarded-Proto tells the
// scheme, and X-Forwarded-Host the host if the proxy does not keep Host.
Status check_host(const HttpRequest& request, const HostRules& rules);

// The headers of an answer that let pages of allowed origins read it. A browser that asks first
// (OPTIONS, a preflight) also gets the headers that the page may send; `methods`: those of the
// path, as in Allow.
HttpHeaders origin_headers(const HttpRequest& request, const HostRules& rules,
                           const std::string& methods);

}  // namespace outrider
