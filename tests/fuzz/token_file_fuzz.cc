// The file of keys: any bytes give keys or faults that name their lines, and never the same key or
// name twice.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "cloud_server/admission/tenants.h"
#include "cloud_server/admission/token_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const outrider::TokenFile file = outrider::parse_tokens(text);
  for (const std::string& fault : file.faults) OUTRIDER_CHECK(fault.starts_with("line "));
  std::set<outrider::Sha256::Digest> keys;
  std::set<std::string> tenants;
  std::string last;
  for (const outrider::TokenEntry& entry : file.entries) {
    OUTRIDER_CHECK(outrider::is_tenant_name(entry.tenant));
    if (entry.hash) OUTRIDER_CHECK(keys.insert(*entry.hash).second);
    if (entry.tenant != last) OUTRIDER_CHECK(tenants.insert(entry.tenant).second);
    last = entry.tenant;
  }
  outrider::Tenants known;
  known.replace(file);
  return 0;
}
