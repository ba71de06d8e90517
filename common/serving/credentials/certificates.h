// Certificates and their keys, checked before use. gRPC reads an empty list of authorities as the
// system's list, and stops reading a list at the first certificate that it cannot read; so no file
// reaches gRPC unchecked.
//
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/status.h"

namespace outrider {

// The text of a file of authorities: at least one certificate in PEM form, all of them complete.
// Errors, with file and remedy: INVALID_ARGUMENT for other content, NOT_FOUND, FAILED_PRECONDITION
// if every user may write to it.
Result<std::string> read_authorities(const std::string& path);

struct KeyPair {
  std::string certificates;  // a chain in PEM form, the owner's first
  std::string key;
};

// Errors of read_authorities(), and FAILED_PRECONDITION for a key that every user may read or that
// belongs to another certificate. Does not check the dates of validity.
Result<KeyPair> read_key_pair(const std::string& cert_path, const std::string& key_path);

// The certificates of a server, and those that it requires of clients.
struct TlsFiles {
  std::string cert;       // a chain, the server's own first
  std::string key;        // of the first certificate
  std::string client_ca;  // the authorities of accepted clients; empty: clients need no certificate

  bool wanted() const { return !cert.empty() || !key.empty() || !client_ca.empty(); }
};

// Errors as above, and for one of cert and key without the other, and a certificate that has
// expired or is not valid yet.
Status check_tls_files(const TlsFiles& files);

}  // namespace outrider
