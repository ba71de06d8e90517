// SHA-256 (FIPS 180-4), for ids that two machines compare.
//
//   Sha256 hash;
//   hash.update("abc");
//   std::string hex = hash.finish_hex();   // 64 lower-case hex digits
//
// Thread rule: one object, one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace outrider {

class Sha256 final {
 public:
  using Digest = std::array<std::uint8_t, 32>;

  void update(std::string_view bytes);
  // Ends the hash; the object must not be used afterwards.
  Digest finish();
  std::string finish_hex();

 private:
  void add_block(const std::uint8_t* block);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, 64> pending_{};
  std::size_t num_pending_ = 0;
  std::uint64_t num_bytes_ = 0;
};

// Whether the text has the form of finish_hex()'s result.
bool is_sha256_hex(std::string_view text);

}  // namespace outrider
