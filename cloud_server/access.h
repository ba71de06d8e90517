// Who may reach this server, as its flags say: TLS, the file of keys, and `token new`.
//
// Thread rule: main thread; the Tenants from any. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "cloud_server/admission/tenants.h"
#include "common/base/status.h"
#include "common/credentials/certificates.h"

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

// Tells when a file is another than before: it was written, or a link on its path leads elsewhere,
// as those of Kubernetes' Secrets do when they change. Files are left alone while they are written.
class FileWatch final {
 public:
  explicit FileWatch(std::string path) : path_(std::move(path)), known_(look()), seen_(known_) {}
  // True once for each change that has lasted since the call before; ask every second or so.
  bool changed();

 private:
  // Device, inode, size, and times of change in nanoseconds; zeros: it is not there.
  using Identity = std::array<std::int64_t, 5>;
  Identity look() const;

  const std::string path_;
  Identity known_;
  Identity seen_;
};

// Prints a new key once, and the line that lets it in; with a file, adds the line to it.
Status print_new_token(const std::string& tenant, const std::string& token_file);

}  // namespace outrider
