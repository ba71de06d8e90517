// Which requests are answered by the names in their heads, so that pages of other sites, open in a
// browser beside this program, cannot use it.
//
// A site can have its own name lead to this machine (DNS rebinding): then its pages may send and
// read anything here, but the Host header tells that name. A page says in Origin where it comes
// from; programs that are no browser send none.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/http/message.h"

namespace outrider {

struct HostRules {
  // Names that lead here, beside those of the loopback and addresses, which no site can pretend to
  // be; "*": any.
  std::vector<std::string> allowed = {};
  // Whether programs that are no browser may use any name, as they do in a network.
  bool any_name_without_origin = false;
};

// PERMISSION_DENIED, with the remedy, for a Host that is not allowed, and for an Origin that is
// not, or that is not the page's own server. Behind a proxy that ends TLS, that server is told by
// X-Forwarded-Proto, and by X-Forwarded-Host if the proxy does not keep Host.
Status check_host(const HttpRequest& request, const HostRules& rules);

}  // namespace outrider
