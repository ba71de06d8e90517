// The file of keys: who may use this server, and how much of it. A line for each key:
//
//   robot-7 sha256:2c26b4..ae sessions=2 queued-requests=4 prompt-tokens-per-minute=60000
//   (one line)                rows-per-second=400 kv-memory=2G exact-times
//
// Only the key's hash is in it: keys are 256 random bits, so the hash tells nothing. A tenant that
// comes by a certificate of that common name has the word `certificate` in the hash's place.
// Several lines may name one tenant, while a key is being replaced; its limits are those of the
// first. Empty lines and those that begin with # say nothing.
//
// Thread rule: pure functions, except for the file. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/sha256.h"
#include "common/base/status.h"

namespace outrider {

// Of one tenant; 0: no limit.
struct TenantLimits {
  std::uint32_t sessions = 0;
  std::uint32_t queued_requests = 0;  // that wait for their first token
  double prompt_tokens_per_minute = 0;
  double rows_per_second = 0;
  std::int64_t kv_bytes = 0;  // of keys and values
  // No limits, but rights: to know how long others kept the device, and to read /metrics beyond
  // loopback, which tell of all tenants.
  bool exact_times = false;
  bool read_metrics = false;

  friend bool operator==(const TenantLimits&, const TenantLimits&) = default;
};

struct TokenEntry {
  std::string tenant;
  std::optional<Sha256::Digest> hash;  // nothing: it comes by certificate
  TenantLimits limits;
};

struct TokenFile {
  std::vector<TokenEntry> entries;
  std::vector<std::string> faults;  // bad lines, each named; the rest is kept
};

// What a tenant may be called, in the file and in a certificate.
bool is_tenant_name(std::string_view name);

TokenFile parse_tokens(std::string_view text);

// FAILED_PRECONDITION if others than its owner may read the file, NOT_FOUND if it is not there,
// INVALID_ARGUMENT if it holds no tenant at all.
Result<TokenFile> read_tokens(const std::string& path);

// A new key for a tenant, and the line that lets it in.
struct NewToken {
  std::string token;
  std::string line;
};
Result<NewToken> new_token(const std::string& tenant);

Sha256::Digest hash_of(std::string_view token);

}  // namespace outrider
