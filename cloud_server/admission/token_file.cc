// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/admission/token_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <sstream>

#include "common/base/random_id.h"
#include "common/serving/cli/byte_size.h"
#include "common/serving/credentials/private_file.h"

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

// The tenant's entries: one for each key, or for its certificate.
Result<std::vector<TokenEntry>> parse_line(const std::string& line) {
  std::istringstream words(line);
  std::string tenant, word;
  words >> tenant;
  if (!is_tenant_name(tenant)) {
    return invalid_argument("the name " + printable(tenant) + " " + std::string(kNameRule));
  }
  std::vector<TokenEntry> entries;
  TenantLimits limits;
  while (words >> word) {
    const std::optional<Sha256::Digest> hash = parse_hash(word);
    if (hash || word == kByCertificate) {
      entries.push_back({tenant, hash, {}});
    } else if (entries.empty() || word.starts_with(kHashScheme)) {
      break;
    } else {
      OUTRIDER_RETURN_IF_ERROR(parse_limit(word, limits));
    }
    word.clear();
  }
  // The word is not shown: it may be a key that was written here by mistake.
  if (entries.empty() || !word.empty()) {
    return invalid_argument("behind the name must stand sha256: and 64 hex digits, or certificate");
  }
  for (TokenEntry& entry : entries) entry.limits = limits;
  return entries;
}

// Adds the entries of valid lines to a file, each of which knows the lines before it.
class LineAdder final {
 public:
  explicit LineAdder(TokenFile& file) : file_(file) {}

  Status add(int number, const std::string& line) {
    OUTRIDER_ASSIGN_OR_RETURN(std::vector<TokenEntry> entries, parse_line(line));
    const auto [same, is_new] = lines_.try_emplace(entries.front().tenant, number);
    if (!is_new) {
      return invalid_argument(same->first + " has line " + std::to_string(same->second) +
                              " already. Remedy: one line, with both keys while one replaces the "
                              "other");
    }
    for (TokenEntry& entry : entries) {
      if (entry.hash) {
        const auto [owner, is_free] = owners_.try_emplace(*entry.hash, entry.tenant);
        if (!is_free) {
          return invalid_argument("its key is also " + owner->second +
                                  "'s. Remedy: a key of its "
                                  "own, by outrider-server token new " +
                                  entry.tenant);
        }
      }
      file_.entries.push_back(std::move(entry));
    }
    return {};
  }

 private:
  TokenFile& file_;
  std::map<std::string, int> lines_;              // of tenants
  std::map<Sha256::Digest, std::string> owners_;  // of keys
};

// Where the tenant's name ends on its line; npos if it has none.
std::size_t end_of_name(const std::string& text, const std::string& tenant) {
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    const std::size_t begin = text.find_first_not_of(" \t\r", at);
    if (begin == std::string::npos) break;
    const std::size_t end = std::min(text.find_first_of(" \t\r\n", begin), text.size());
    if (text.compare(begin, end - begin, tenant) == 0) return end;
    if (text.find('\n', at) == std::string::npos) break;
  }
  return std::string::npos;
}

std::string fault_of(const TokenFile& file, const std::string& path) {
  return path + ": " + file.faults.front() +
         (file.faults.size() == 1 ? ""
                                  : " (and " + std::to_string(file.faults.size() - 1) + " more)");
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
  LineAdder adder(file);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#') continue;
    const Status added = adder.add(number, line);
    if (!added.ok()) {
      file.faults.push_back("line " + std::to_string(number) + ": " + added.message());
    }
  }
  return file;
}

Result<TokenFile> read_tokens(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_private_file(path));
  TokenFile file = parse_tokens(text);
  if (!file.faults.empty()) return invalid_argument(fault_of(file, path));
  if (!file.entries.empty()) return file;
  return invalid_argument(
      path + ": has no key. Remedy: outrider-server token new NAME --token-file " + path);
}

Result<NewToken> new_token(const std::string& tenant) {
  if (!is_tenant_name(tenant)) {
    return invalid_argument("the name " + printable(tenant) + " " + std::string(kNameRule));
  }
  const std::string token = "or-" + random_id() + random_id();
  return NewToken{token, tenant + " " + std::string(kHashScheme) + to_hex(hash_of(token))};
}

Status add_token(const std::string& path, const std::string& tenant, const NewToken& made) {
  return edit_private_file(path, [&](const std::string& text) -> Result<std::string> {
    const TokenFile file = parse_tokens(text);
    if (!file.faults.empty()) return invalid_argument(fault_of(file, path));
    std::string edited = text;
    const std::size_t end = end_of_name(text, tenant);
    if (end != std::string::npos) return edited.insert(end, made.line.substr(tenant.size()));
    if (!edited.empty() && edited.back() != '\n') edited += '\n';
    return edited + made.line + "\n";
  });
}

Sha256::Digest hash_of(std::string_view token) {
  Sha256 hash;
  hash.update(token);
  return hash.finish();
}

}  // namespace outrider
