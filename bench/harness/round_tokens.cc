// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/round_tokens.h"

#include <cmath>

namespace outrider {

double tokens_per_round(double acceptance, double gamma) {
  if (acceptance >= 1) return gamma + 1;
  return (1 - std::pow(acceptance, gamma + 1)) / (1 - acceptance);
}

double acceptance_of_tau(double tau, double gamma) {
  if (tau >= gamma + 1) return 1;
  double low = 0, high = 1;
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    (tokens_per_round(middle, gamma) < tau ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace outrider
