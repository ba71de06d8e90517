// Access control by flags: TLS, the file of keys, and the command `token new`.
//
// Thread rule: main thread; the Tenants from any. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "cloud_server/admission/tenants.h"
#include "common/base/status.h"
#include "common/serving/credentials/certificates.h"

namespace outrider {

struct AccessOptions {
  std::string host;
  std::string metrics_host = {};  // empty: same as host
  TlsFiles tls;
  std::string token_file;  // empty: no keys are required
  bool insecure = false;
};

// Requires TLS and keys or client certificates on addresses other than loopback, unless insecure.
// Checks the certificates. Errors name flag and remedy.
Status check_access(const AccessOptions& options);

// Reads the keys. After an error, such as one faulty line, the previous keys remain.
Status load_tokens(const std::string& path, Tenants& tenants);

// Detects that a file was replaced: it was written, or a link on its path has another destination,
// as in Kubernetes' Secrets. A file that is being written is reported when it is complete.
class FileWatch final {
 public:
  explicit FileWatch(std::string path) : path_(std::move(path)), known_(look()), seen_(known_) {}
  // True once for each change that was already seen by the call before; call about every second.
  bool changed();

 private:
  // Device, inode, size, and times of change in nanoseconds; zeros: the file does not exist.
  using Identity = std::array<std::int64_t, 5>;
  Identity look() const;

  const std::string path_;
  Identity known_;
  Identity seen_;
};

// Prints a new key once, with its line for the token file; if a file is given, adds the line to it.
Status print_new_token(const std::string& tenant, const std::string& token_file);

}  // namespace outrider
