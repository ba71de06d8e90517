// SPDX-License-Identifier: Apache-2.0
#include "common/serving/http/tls.h"

#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <boost/asio/buffer.hpp>
#include <string_view>
#include <utility>

namespace outrider {
namespace {

namespace asio = boost::asio;
using Error = boost::system::error_code;

constexpr std::string_view kProtocols = "\x08http/1.1";

int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* size,
                    const unsigned char* offered, unsigned offered_size, void*) {
  unsigned char* found = nullptr;
  const int how =
      SSL_select_next_proto(&found, size, reinterpret_cast<const unsigned char*>(kProtocols.data()),
                            static_cast<unsigned>(kProtocols.size()), offered, offered_size);
  *chosen = found;
  return how == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

void set_rules(SSL_CTX* context) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_cipher_list(context, kTls12Suites);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(context, choose_protocol, nullptr);
}

// Null if OpenSSL does not take them.
std::shared_ptr<asio::ssl::context> make_context(const OfferedTlsFiles::Texts& texts) {
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  set_rules(context->native_handle());
  Error error;
  context->use_certificate_chain(asio::buffer(texts.cert), error);
  if (!error) context->use_private_key(asio::buffer(texts.key), asio::ssl::context::pem, error);
  if (!error && !texts.client_ca.empty()) {
    context->add_certificate_authority(asio::buffer(texts.client_ca), error);
    context->set_verify_mode(asio::ssl::verify_peer);
  }
  return error ? nullptr : context;
}

}  // namespace

std::shared_ptr<asio::ssl::context> HttpTls::context() {
  std::shared_ptr<const OfferedTlsFiles::Texts> now = files_->texts();
  if (now != texts_) {
    if (auto fresh = make_context(*now)) context_ = std::move(fresh);
    texts_ = std::move(now);
  }
  return context_;
}

std::optional<std::string> client_name(SSL* connection) {
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(
      SSL_get1_peer_certificate(connection), X509_free);
  if (certificate == nullptr) return std::nullopt;
  const X509_NAME* const subject = X509_get_subject_name(certificate.get());
  const int first = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (first < 0 || X509_NAME_get_index_by_NID(subject, NID_commonName, first) >= 0) return "";
  const ASN1_STRING* const name = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, first));
  unsigned char* text = nullptr;
  const int size = ASN1_STRING_to_UTF8(&text, name);
  if (size < 0) return "";
  std::string result(reinterpret_cast<const char*>(text), static_cast<std::size_t>(size));
  OPENSSL_free(text);
  return result;
}

}  // namespace outrider
