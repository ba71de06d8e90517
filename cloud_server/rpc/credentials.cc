// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/rpc/credentials.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <cstdlib>

namespace outrider {
namespace {

// Of TLS 1.2, one for each kind of certificate: gRPC cannot be told to prefer its own order to the
// peer's, and of one suite there is none. TLS 1.3 has its own three. What the environment says
// stands.
constexpr const char* kCipherSuites = "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256";
// Of copies in memory.
constexpr unsigned kReloadSeconds = 1;

}  // namespace

std::shared_ptr<grpc::ServerCredentials> make_server_credentials(const TlsFiles& files) {
  if (!files.wanted()) return grpc::InsecureServerCredentials();
  ::setenv("GRPC_SSL_CIPHER_SUITES", kCipherSuites, 0);
  using grpc::experimental::FileWatcherCertificateProvider;
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<FileWatcherCertificateProvider>(files.key, files.cert, files.client_ca,
                                                       kReloadSeconds));
  options.watch_identity_key_cert_pairs();
  if (files.client_ca.empty()) {
    options.set_cert_request_type(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  } else {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace outrider
