// How many tokens a round brings whose drafted tokens each stand with the same chance:
// τ = 1 + a + .. + a^γ. γ may be the mean of rounds of several lengths.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

namespace outrider {

double tokens_per_round(double acceptance, double gamma);

// The chance at which rounds of gamma tokens bring tau; 0 below τ = 1, 1 above γ + 1.
double acceptance_of_tau(double tau, double gamma);

}  // namespace outrider
