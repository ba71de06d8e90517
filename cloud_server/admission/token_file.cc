// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/admission/token_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>

#include "common/base/random_id.h"
#include "common/cli/byte_size.h"
#include "common/credentials/private_file.h"

namespace outrider {
namespace {

constexpr std::string_view kHashScheme = "sha256:";
constexpr std::string_view kByCertificate = "certificate";
constexpr std::size_t kLongestName = 64;

constexpr std::string_view kNameRule =
    "must be 1 to 64 letters, digits, dashes, dots or underscores";

std::optional<Sha256::Digest> parse_hash(std::string_view text) {
  Sha256::Digest hash{};
  if (text.substr(0, kHashScheme.size()) != kHashScheme) return std::nullopt;
  text.remove_prefix(kHashScheme.size());
  if (text.size() != 2 * hash.size()) return std::nullopt;
  for (std::size_t i = 0; i < hash.size(); ++i) {
    const char* at = text.data() + 2 * i;
    const auto [rest, error] = std::from_chars(at, at + 2, hash[i], 16);
    if (error != std::errc() || rest != at + 2) return std::nullopt;
  }
  return hash;
}

std::string to_hex(const Sha256::Digest& hash) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const std::uint8_t byte : hash) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

// A number above 0, or nothing.
std::optional<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  return std::isfinite(value) && value > 0 && value <= 1e9 ? std::optional(value) : std::nullopt;
}

Status parse_count(std::string_view word, double value, std::uint32_t& count) {
  count = static_cast<std::uint32_t>(value);
  return count > 0
             ? Status()
             : invalid_argument(printable(word) + ": must be 1 or more; leave it out for no limit");
}

Status parse_limit(std::string_view word, TenantLimits& limits) {
  const std::size_t equals = std::min(word.find('='), word.size());
  const std::string_view name = word.substr(0, equals);
  const std::string_view text = word.substr(std::min(equals + 1, word.size()));
  for (const auto& [right, has] :
       {std::pair("exact-times", &limits.exact_times),
        std::pair("read-metrics", &limits.read_metrics), std::pair("priority", &limits.priority)}) {
    if (word != right) continue;
    *has = true;
    return {};
  }
  if (name == "kv-memory") {
    limits.kv_bytes = parse_byte_size(text).value_or(0);
    return limits.kv_bytes > 0
               ? Status()
               : invalid_argument(printable(word) + ": must be bytes like 500M, 12G, above 0");
  }
  const std::optional<double> value = parse_number(text);
  if (!value)
    return invalid_argument(printable(word) +
                            ": a limit must be NAME=NUMBER, above 0; leave it out for no limit");
  if (name == "sessions") return parse_count(word, *value, limits.sessions);
  if (name == "queued-requests") return parse_count(word, *value, limits.queued_requests);
  if (name == "prompt-tokens-per-minute") {
    limits.prompt_tokens_per_minute = *value;
  } else if (name == "rows-per-second") {
    limits.rows_per_second = *value;
  } else {
    return invalid_argument(printable(name) +
                            " is not a limit; limits are sessions, queued-requests, "
                            "prompt-tokens-per-minute, rows-per-second, kv-memory, exact-times, "
                            "read-metrics, priority");
  }
  return {};
}

Result<TokenEntry> parse_line(const std::string& line) {
  std::istringstream words(line);
  TokenEntry entry;
  std::string hash;
  words >> entry.tenant >> hash;
  if (!is_tenant_name(entry.tenant)) {
    return invalid_argument("the name " + printable(entry.tenant) + " " + std::string(kNameRule));
  }
  entry.hash = parse_hash(hash);
  // The word is not shown: it may be a key that was written here by mistake.
  if (!entry.hash && hash != kByCertificate) {
    return invalid_argument("the second word must be sha256: and 64 hex digits, or certificate");
  }
  for (std::string word; words >> word;) {
    OUTRIDER_RETURN_IF_ERROR(parse_limit(word, entry.limits));
  }
  return entry;
}

}  // namespace

bool is_tenant_name(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_' || c == '.';
         });
}

TokenFile parse_tokens(std::string_view text) {
  TokenFile file;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // a byte order mark
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#') continue;
    Result<TokenEntry> entry = parse_line(line);
    if (entry.ok()) {
      file.entries.push_back(*std::move(entry));
    } else {
      file.faults.push_back("line " + std::to_string(number) + ": " + entry.status().message());
    }
  }
  return file;
}

Result<TokenFile> read_tokens(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_private_file(path));
  TokenFile file = parse_tokens(text);
  if (!file.entries.empty()) return file;
  return invalid_argument(path + ": has no key" +
                          (file.faults.empty() ? "" : " (" + file.faults.front() + ")") +
                          ". Remedy: outrider-server token new NAME --token-file " + path);
}

Result<NewToken> new_token(const std::string& tenant) {
  if (!is_tenant_name(tenant)) {
    return invalid_argument("the name " + printable(tenant) + " " + std::string(kNameRule));
  }
  const std::string token = "or-" + random_id() + random_id();
  return NewToken{token, tenant + " " + std::string(kHashScheme) + to_hex(hash_of(token))};
}

Sha256::Digest hash_of(std::string_view token) {
  Sha256 hash;
  hash.update(token);
  return hash.finish();
}

}  // namespace outrider
