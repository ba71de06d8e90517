// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/admission/certificates.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/files.h"
#include "common/cli/private_file.h"

namespace outrider {
namespace {

constexpr std::int64_t kMaxBytes = 1 << 20;

using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Source = std::unique_ptr<BIO, decltype(&BIO_free)>;

Source source_of(const std::string& pem) {
  return {BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free};
}

// The first of the file.
Result<Certificate> read_certificate(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string pem, read_file(path, kMaxBytes));
  const Source source = source_of(pem);
  Certificate certificate(PEM_read_bio_X509(source.get(), nullptr, nullptr, nullptr), X509_free);
  ERR_clear_error();
  if (certificate == nullptr) {
    return invalid_argument(path + ": holds no certificate in PEM form");
  }
  return certificate;
}

Status check_times(const std::string& path, const X509& certificate) {
  if (X509_cmp_current_time(X509_get0_notAfter(&certificate)) < 0) {
    return failed_precondition(path +
                               ": the certificate has expired. Remedy: renew it; if it is "
                               "new, look at this machine's clock");
  }
  if (X509_cmp_current_time(X509_get0_notBefore(&certificate)) > 0) {
    return failed_precondition(path +
                               ": the certificate is not valid yet. Remedy: look at this "
                               "machine's clock");
  }
  return {};
}

Status check_key(const std::string& path, const std::string& cert_path, const X509& certificate) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string pem, read_private_file(path));
  const Source source = source_of(pem);
  // A key under a passphrase is no key of a server's: nobody is there to type it.
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

Status check_tls_files(const TlsFiles& files) {
  if (!files.wanted()) return {};
  if (files.cert.empty() || files.key.empty()) {
    return invalid_argument("--tls-cert and --tls-key belong together; one of them is missing");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const Certificate certificate, read_certificate(files.cert));
  OUTRIDER_RETURN_IF_ERROR(check_times(files.cert, *certificate));
  OUTRIDER_RETURN_IF_ERROR(check_key(files.key, files.cert, *certificate));
  if (files.client_ca.empty()) return {};
  OUTRIDER_ASSIGN_OR_RETURN(const Certificate authority, read_certificate(files.client_ca));
  return check_times(files.client_ca, *authority);
}

}  // namespace outrider
