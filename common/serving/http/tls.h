// TLS of an HTTP server: what it shows to clients, and what it asks of them.
//
// TLS 1.2 and 1.3, without renegotiation and without resumption, so that each connection is checked
// by the files of its day; of ALPN's protocols only http/1.1. Where the files name authorities, a
// client may show a certificate of theirs, and one of others ends the handshake; whether a request
// needs one is the server's decision (server.h), because probes of health have none.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <optional>
#include <string>

#include "common/serving/credentials/offered_tls_files.h"

namespace outrider {

class HttpTls final {
 public:
  explicit HttpTls(std::shared_ptr<const OfferedTlsFiles> files) : files_(std::move(files)) {}

  // For the next connection, by the files' present texts; connections keep theirs. Null if OpenSSL
  // takes none of the texts so far, which check_tls_files() has excluded.
  std::shared_ptr<boost::asio::ssl::context> context();
  // Whether clients are to show a certificate.
  bool asks_clients() const { return !files_->texts()->client_ca.empty(); }

 private:
  const std::shared_ptr<const OfferedTlsFiles> files_;
  std::shared_ptr<const OfferedTlsFiles::Texts> texts_;  // that the context is made of
  std::shared_ptr<boost::asio::ssl::context> context_;
};

// The common name of the client's certificate, which the handshake has verified; empty unless it
// has exactly one. Nothing: the client showed none.
std::optional<std::string> client_name(SSL* connection);

}  // namespace outrider
