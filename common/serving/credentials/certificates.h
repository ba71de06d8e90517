// Certificates and their keys, checked before use, and the cipher suites of all servers here. gRPC
// reads an empty list of authorities as the system's list, and stops reading a list at the first
// certificate that it cannot read; so no file reaches gRPC unchecked.
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

// One suite of TLS 1.2 for each kind of certificate: gRPC cannot be made to prefer its own order to
// the peer's, and with one suite there is no order. TLS 1.3 has its own three.
inline constexpr char kTls12Suites[] = "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256";

// The certificates of a server, and those that it requires of clients.
struct TlsFiles {
  std::string cert = {};        // a chain, the server's own first
  std::string key = {};         // of the first certificate
  std::string client_ca = {};   // authorities of accepted clients; empty: they need no certificate
  std::string flags = "--tls";  // how the names of their flags begin, for errors

  bool wanted() const { return !cert.empty() || !key.empty() || !client_ca.empty(); }
};

// Errors as above, and for one of cert and key without the other, and a certificate that has
// expired, is not valid yet, or has a key that OpenSSL considers weak.
Status check_tls_files(const TlsFiles& files);

}  // namespace outrider
