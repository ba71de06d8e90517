// Checks of a certificate and its key before a server offers them.
//
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/status.h"

namespace outrider {

struct TlsFiles {
  std::string cert;       // a chain, the server's own first
  std::string key;        // of the first
  std::string client_ca;  // whose clients may come in; empty: they need no certificate

  bool wanted() const { return !cert.empty() || !key.empty() || !client_ca.empty(); }
};

// FAILED_PRECONDITION or INVALID_ARGUMENT, with the file and the remedy: a file without the other,
// one that cannot be read, a key that everybody may read or that does not fit, a certificate that
// has expired or is not valid yet.
Status check_tls_files(const TlsFiles& files);

}  // namespace outrider
