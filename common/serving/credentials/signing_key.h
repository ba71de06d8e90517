// Signatures by Ed25519 (RFC 8032), made and checked by OpenSSL: an operator's key under records of
// answers (docs/audit.md).
//
//   OUTRIDER_ASSIGN_OR_RETURN(const SigningKey key, SigningKey::read("record.key"));
//   const std::string signature = key.sign(text);              // 128 hex digits
//   is_signed_by(key.public_key(), text, signature)            // true
//
// Thread rule: any thread; keys are immutable. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace outrider {

// Lower-case hex digits of a public key, and of a signature.
inline constexpr std::size_t kPublicKeyDigits = 64;
inline constexpr std::size_t kSignatureDigits = 128;

class SigningKey final {
 public:
  // A new key, drawn by OpenSSL.
  static Result<SigningKey> make();
  // A file with a private key in PEM form, as `outrider-server record-key new` writes it. Errors,
  // with the remedy: NOT_FOUND; FAILED_PRECONDITION if other users than its owner may use it;
  // INVALID_ARGUMENT if it has no Ed25519 key. They never show its content.
  static Result<SigningKey> read(const std::string& path);

  const std::string& public_key() const { return public_key_; }
  // In PEM form. Secret.
  std::string private_pem() const;
  std::string sign(std::string_view text) const;

 private:
  explicit SigningKey(std::shared_ptr<void> key);

  std::shared_ptr<void> key_;  // an EVP_PKEY
  std::string public_key_;
};

// A new key into this file, which must not exist, for its owner only (mode 0600). Returns the
// public one. Errors: those of OutputFile.
Result<std::string> write_new_signing_key(const std::string& path);

// 64 hex digits, or the name of a file that has nothing else. INVALID_ARGUMENT with the remedy.
Result<std::string> read_public_key(const std::string& digits_or_path);

// False also for what has not the form of a key or of a signature.
bool is_signed_by(const std::string& public_key, std::string_view text, std::string_view signature);

}  // namespace outrider
