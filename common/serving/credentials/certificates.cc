// SPDX-License-Identifier: Apache-2.0
#include "common/serving/credentials/certificates.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <utility>
#include <vector>

#include "common/serving/credentials/private_file.h"

namespace outrider {
namespace {

using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Source = std::unique_ptr<BIO, decltype(&BIO_free)>;

Source source_of(const std::string& pem) {
  return {BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free};
}

// All certificates of the text, at least one.
Result<std::vector<Certificate>> parse_certificates(const std::string& path,
                                                    const std::string& pem) {
  const Source source = source_of(pem);
  std::vector<Certificate> certificates;
  while (true) {
    Certificate next(PEM_read_bio_X509(source.get(), nullptr, nullptr, nullptr), X509_free);
    if (next == nullptr) break;
    certificates.push_back(std::move(next));
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!at_end) {
    return invalid_argument(path + ": certificate " + std::to_string(certificates.size() + 1) +
                            " in it is damaged or cut off. Remedy: write the file again");
  }
  if (certificates.empty()) {
    return invalid_argument(path + ": holds no certificate in PEM form");
  }
  return certificates;
}

Status check_times(const std::string& path, const X509& certificate) {
  if (X509_cmp_current_time(X509_get0_notAfter(&certificate)) < 0) {
    return failed_precondition(path +
                               ": the certificate has expired. Remedy: renew it; if it is "
                               "new, check this machine's clock");
  }
  if (X509_cmp_current_time(X509_get0_notBefore(&certificate)) > 0) {
    return failed_precondition(path +
                               ": the certificate is not valid yet. Remedy: check this "
                               "machine's clock");
  }
  return {};
}

// OpenSSL's security level refuses short keys, which no handshake would succeed with.
Status check_strength(const std::string& path, X509& certificate) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_server_method()),
                                                                  SSL_CTX_free);
  if (context == nullptr || SSL_CTX_use_certificate(context.get(), &certificate) == 1) return {};
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return invalid_argument(path + ": OpenSSL does not use this certificate (" +
                          (reason != nullptr ? reason : "it gives no reason") +
                          "). Remedy: make one with a key of P-256, or of RSA with 2048 bits");
}

Status check_key(const std::string& path, const std::string& pem, const std::string& cert_path,
                 const X509& certificate) {
  const Source source = source_of(pem);
  // No user is present to type a passphrase.
  const auto no_passphrase = [](char*, int, int, void*) { return 0; };
  const Key key(PEM_read_bio_PrivateKey(source.get(), nullptr, no_passphrase, nullptr),
                EVP_PKEY_free);
  ERR_clear_error();
  if (key == nullptr) {
    return invalid_argument(path + ": holds no private key in PEM form without a passphrase");
  }
  const bool fits = X509_check_private_key(&certificate, key.get()) == 1;
  ERR_clear_error();
  if (fits) return {};
  return failed_precondition(path + ": is not the key of the certificate in " + cert_path);
}

}  // namespace

Result<std::string> read_authorities(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(std::string pem, read_trusted_file(path));
  OUTRIDER_RETURN_IF_ERROR(parse_certificates(path, pem).status());
  return pem;
}

Result<KeyPair> read_key_pair(const std::string& cert_path, const std::string& key_path) {
  KeyPair pair;
  OUTRIDER_ASSIGN_OR_RETURN(pair.certificates, read_trusted_file(cert_path));
  OUTRIDER_ASSIGN_OR_RETURN(const auto chain, parse_certificates(cert_path, pair.certificates));
  OUTRIDER_ASSIGN_OR_RETURN(pair.key, read_private_file(key_path));
  OUTRIDER_RETURN_IF_ERROR(check_key(key_path, pair.key, cert_path, *chain.front()));
  return pair;
}

Status check_tls_files(const TlsFiles& files) {
  if (!files.wanted()) return {};
  if (files.cert.empty() || files.key.empty()) {
    return invalid_argument(files.flags + "-cert and " + files.flags +
                            "-key belong together; one of them is missing");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const KeyPair pair, read_key_pair(files.cert, files.key));
  OUTRIDER_ASSIGN_OR_RETURN(const auto chain, parse_certificates(files.cert, pair.certificates));
  OUTRIDER_RETURN_IF_ERROR(check_times(files.cert, *chain.front()));
  OUTRIDER_RETURN_IF_ERROR(check_strength(files.cert, *chain.front()));
  if (files.client_ca.empty()) return {};
  OUTRIDER_ASSIGN_OR_RETURN(const std::string pem, read_authorities(files.client_ca));
  OUTRIDER_ASSIGN_OR_RETURN(const auto authorities, parse_certificates(files.client_ca, pem));
  return check_times(files.client_ca, *authorities.front());
}

}  // namespace outrider
