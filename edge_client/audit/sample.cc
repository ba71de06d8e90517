// SPDX-License-Identifier: Apache-2.0
#include "edge_client/audit/sample.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "common/base/sha256.h"

namespace outrider {

// Those whose hashes with the seed are the least.
std::vector<bool> draw_answers(std::size_t answers, double share, std::uint64_t seed) {
  const auto wanted = static_cast<std::size_t>(std::ceil(share * static_cast<double>(answers)));
  const std::size_t count = std::min(std::max<std::size_t>(wanted, 1), answers);
  std::vector<std::pair<std::string, std::size_t>> order;
  for (std::size_t i = 0; i < answers; ++i) {
    Sha256 hash;
    hash.update(std::to_string(seed) + ":" + std::to_string(i));
    order.emplace_back(hash.finish_hex(), i);
  }
  std::ranges::sort(order);
  std::vector<bool> drawn(answers, false);
  for (std::size_t i = 0; i < count; ++i) drawn[order[i].second] = true;
  return drawn;
}

double escape_chance(std::size_t answers, std::size_t drawn, std::size_t forged) {
  double chance = 1;
  for (std::size_t i = 0; i < forged; ++i) {
    if (answers - drawn <= i) return 0;
    chance *= static_cast<double>(answers - drawn - i) / static_cast<double>(answers - i);
  }
  return chance;
}

std::string escape_text(std::size_t answers, std::size_t drawn) {
  std::string text = "a forger escapes with chance";
  const char* before = " ";
  for (const std::size_t forged : {1, 10, 100}) {
    if (forged > answers) break;
    char part[64];
    std::snprintf(part, sizeof part, "%s%.3g if %zu %s forged", before,
                  escape_chance(answers, drawn, forged), forged, forged == 1 ? "is" : "are");
    text += part;
    before = ", ";
  }
  return text;
}

}  // namespace outrider
