// SPDX-License-Identifier: Apache-2.0
#include "common/serving/credentials/signing_key.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/base/files.h"
#include "common/base/output_file.h"
#include "common/serving/credentials/private_file.h"

namespace outrider {
namespace {

constexpr std::size_t kPublicBytes = kPublicKeyDigits / 2;
constexpr std::size_t kSignatureBytes = kSignatureDigits / 2;
constexpr std::int64_t kMaxPublicFile = 4096;

using Pkey = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Context = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;
using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;

constexpr OutputKind kKeyFile{.name = "a key for records",
                              .is_earlier = [](std::string_view) { return false; },
                              .is_secret = true};

std::string to_hex(std::span<const std::uint8_t> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

// Nothing: these are not so many lower-case hex digits.
std::optional<std::vector<std::uint8_t>> from_hex(std::string_view text, std::size_t digits) {
  if (text.size() != digits) return std::nullopt;
  std::vector<std::uint8_t> bytes(digits / 2);
  for (std::size_t i = 0; i < digits; ++i) {
    const char c = text[i];
    const bool number = c >= '0' && c <= '9';
    if (!number && (c < 'a' || c > 'f')) return std::nullopt;
    const int value = number ? c - '0' : c - 'a' + 10;
    bytes[i / 2] = static_cast<std::uint8_t>(bytes[i / 2] << 4 | value);
  }
  return bytes;
}

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

EVP_PKEY* raw(const std::shared_ptr<void>& key) {
  return static_cast<EVP_PKEY*>(key.get());
}

std::shared_ptr<void> shared(EVP_PKEY* key) {
  return {key, [](void* held) { EVP_PKEY_free(static_cast<EVP_PKEY*>(held)); }};
}

// No user but the owner may read it, not even the owner's group: the key speaks for the owner.
Status check_owner_only(const std::string& path) {
  struct stat about {};
  if (stat(path.c_str(), &about) != 0 || (about.st_mode & 077) == 0) return {};
  return failed_precondition(path + ": other users may use this key. Remedy: chmod 600 " + path);
}

}  // namespace

SigningKey::SigningKey(std::shared_ptr<void> key) : key_(std::move(key)) {
  std::array<std::uint8_t, kPublicBytes> bytes{};
  std::size_t size = bytes.size();
  OUTRIDER_CHECK(EVP_PKEY_get_raw_public_key(raw(key_), bytes.data(), &size) == 1 &&
                 size == bytes.size());
  public_key_ = to_hex(bytes);
}

Result<SigningKey> SigningKey::make() {
  EVP_PKEY* const key = EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
  if (key == nullptr) return internal_error("OpenSSL made no key");
  return SigningKey(shared(key));
}

Result<SigningKey> SigningKey::read(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_private_file(path));
  OUTRIDER_RETURN_IF_ERROR(check_owner_only(path));
  const Bio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
  // Without a callback OpenSSL would ask at the terminal for the password of an encrypted key.
  const auto no_password = [](char*, int, int, void*) { return 0; };
  Pkey key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr), EVP_PKEY_free);
  if (key == nullptr || EVP_PKEY_is_a(key.get(), "ED25519") != 1) {
    return invalid_argument(path +
                            ": has no Ed25519 key in PEM form without a password. Remedy: make one "
                            "with outrider-server record-key new");
  }
  return SigningKey(shared(key.release()));
}

std::string SigningKey::private_pem() const {
  const Bio bio(BIO_new(BIO_s_mem()), BIO_free);
  OUTRIDER_CHECK(
      PEM_write_bio_PrivateKey(bio.get(), raw(key_), nullptr, nullptr, 0, nullptr, nullptr) == 1);
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}

std::string SigningKey::sign(std::string_view text) const {
  const Context context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  std::array<std::uint8_t, kSignatureBytes> signature{};
  std::size_t size = signature.size();
  OUTRIDER_CHECK(EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, raw(key_)) == 1);
  OUTRIDER_CHECK(
      EVP_DigestSign(context.get(), signature.data(), &size, bytes_of(text), text.size()) == 1);
  return to_hex(signature);
}

Result<std::string> write_new_signing_key(const std::string& path) {
  struct stat about {};
  if (lstat(path.c_str(), &about) == 0) {
    return invalid_argument(path +
                            ": is there already, and a key that is replaced is lost. "
                            "Remedy: name a new file");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const SigningKey key, SigningKey::make());
  OUTRIDER_RETURN_IF_ERROR(write_output(path, kKeyFile, key.private_pem()));
  return key.public_key();
}

Result<std::string> read_public_key(const std::string& digits_or_path) {
  std::string text = digits_or_path;
  if (!from_hex(text, kPublicKeyDigits)) {
    const Result<std::string> file = read_file(digits_or_path, kMaxPublicFile);
    if (file.ok()) text = file->substr(0, file->find_last_not_of(" \t\r\n") + 1);
  }
  if (from_hex(text, kPublicKeyDigits)) return text;
  return invalid_argument("'" + digits_or_path.substr(0, kPublicKeyDigits + 1) +
                          "' is no public key: 64 lower-case hex digits, or a file that has them. "
                          "Remedy: the digits that outrider-server record-key new printed");
}

bool is_signed_by(const std::string& public_key, std::string_view text,
                  std::string_view signature) {
  const auto key_bytes = from_hex(public_key, kPublicKeyDigits);
  const auto bytes = from_hex(signature, kSignatureDigits);
  if (!key_bytes || !bytes) return false;
  const Pkey key(EVP_PKEY_new_raw_public_key_ex(nullptr, "ED25519", nullptr, key_bytes->data(),
                                                key_bytes->size()),
                 EVP_PKEY_free);
  const Context context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  return key != nullptr &&
         EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
         EVP_DigestVerify(context.get(), bytes->data(), bytes->size(), bytes_of(text),
                          text.size()) == 1;
}

}  // namespace outrider
