// Certificates and their keys, checked before they are shown to a peer or decide whom to trust.
// gRPC itself takes an empty list of authorities for the system's, and stops reading a list at the
// first certificate that it cannot read; so no file reaches gRPC unchecked.
//
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/status.h"

namespace outrider {

// The text of a file of authorities: one certificate in PEM form at least, and every one of them
// whole. Errors, with the file and the remedy: INVALID_ARGUMENT for other content, NOT_FOUND,
// FAILED_PRECONDITION if everybody may write to it.
Result<std::string> read_authorities(const std::string& path);

struct KeyPair {
  std::string certificates;  // a chain in PEM form, the owner's first
  std::string key;
};

// Errors as read_authorities()', and FAILED_PRECONDITION for a key that everybody may read or that
// is another certificate's. Does not ask whether the certificate is valid today.
Result<KeyPair> read_key_pair(const std::string& cert_path, const std::string& key_path);

// What a server shows and asks for.
struct TlsFiles {
  std::string cert;       // a chain, the server's own first
  std::string key;        // of the first
  std::string client_ca;  // whose clients may come in; empty: they need no certificate

  bool wanted() const { return !cert.empty() || !key.empty() || !client_ca.empty(); }
};

// Errors as above, and: a file without the other, a certificate that has expired or is not valid
// yet.
Status check_tls_files(const TlsFiles& files);

}  // namespace outrider
