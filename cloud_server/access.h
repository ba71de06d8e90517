// Who may reach this server, as its flags say: TLS, the file of keys, and `token new`.
//
// Thread rule: main thread; the Tenants from any. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cloud_server/admission/certificates.h"
#include "cloud_server/admission/tenants.h"
#include "common/base/status.h"

namespace outrider {

struct AccessOptions {
  std::string host;
  std::string metrics_host = {};  // empty: host
  TlsFiles tls;
  std::string token_file;  // empty: nobody is asked for a key
  bool insecure = false;
};

// Beyond loopback only with TLS and with keys or certificates, unless insecure; certificates that
// fit and are valid. Errors name flag and remedy.
Status check_access(const AccessOptions& options);

// Reads the keys, and logs which lines are bad. After an error the keys are as before.
Status load_tokens(const std::string& path, Tenants& tenants);

// Prints a new key once, and the line that lets it in; with a file, adds the line to it.
Status print_new_token(const std::string& tenant, const std::string& token_file);

}  // namespace outrider
