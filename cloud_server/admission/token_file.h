// The file of keys: who may use this server, and how much of it. It has a line for each key:
//
//   robot-7 sha256:2c26b4..ae sessions=2 queued-requests=4 prompt-tokens-per-minute=60000
//   (one line)                rows-per-second=400 kv-memory=2G exact-times
//
// The file contains only hashes. Keys are 256 random bits, so a hash does not reveal its key. A
// tenant with a certificate of that common name has the word `certificate` instead of the hash.
// While a key is being replaced, both hashes stand on the tenant's line, one behind the other.
// Empty lines and those that begin with # are ignored. A file with any faulty line is refused as a
// whole: it may be half saved, and the tenants of its other lines would lose their keys.
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

// The limits of one tenant; 0 means no limit.
struct TenantLimits {
  std::uint32_t sessions = 0;
  std::uint32_t queued_requests = 0;  // sessions without their first token
  double prompt_tokens_per_minute = 0;
  double rows_per_second = 0;
  std::int64_t kv_bytes = 0;  // of keys and values
  // Rights instead of limits: to see exact device times instead of load levels, to read /metrics
  // from the network, which shows all tenants, and to be served before others (ServiceTier).
  bool exact_times = false;
  bool read_metrics = false;
  bool priority = false;

  friend bool operator==(const TenantLimits&, const TenantLimits&) = default;
};

struct TokenEntry {
  std::string tenant;
  std::optional<Sha256::Digest> hash;  // nothing: the tenant has a certificate
  TenantLimits limits;
};

struct TokenFile {
  std::vector<TokenEntry> entries;  // a tenant's stand together
  std::vector<std::string> faults;  // one for each invalid line; with any, read_tokens() fails
};

// Whether a text can name a tenant, in the file and in a certificate.
bool is_tenant_name(std::string_view name);

TokenFile parse_tokens(std::string_view text);

// FAILED_PRECONDITION if other users may read the file, NOT_FOUND if it does not exist,
// INVALID_ARGUMENT if it has a faulty line, two lines of one tenant, one key of two tenants, or no
// tenant.
Result<TokenFile> read_tokens(const std::string& path);

// A new key for a tenant, and its line for the file.
struct NewToken {
  std::string token;
  std::string line;
};
Result<NewToken> new_token(const std::string& tenant);

// Adds the key to the file: to its tenant's line, or as a new line. INVALID_ARGUMENT if the file
// has a faulty line already.
Status add_token(const std::string& path, const std::string& tenant, const NewToken& made);

Sha256::Digest hash_of(std::string_view token);

}  // namespace outrider
