// SPDX-License-Identifier: Apache-2.0
#include "bench/paper/strategy_map.h"

#include <algorithm>

#include "bench/harness/round_tokens.h"

namespace outrider {
namespace {

LawTerms terms_of(const MapPoint& point, int gamma) {
  return {.step_ms = point.step_ms,
          .pass_ms = point.pass.ms(gamma + 1),
          .one_way_ms = point.one_way_ms,
          .gamma = static_cast<double>(gamma),
          .tau = tokens_per_round(point.acceptance, gamma)};
}

double cloud_ms(const MapPoint& point, int gamma) {
  const LawTerms terms = terms_of(point, gamma);
  return (terms.gamma * point.cloud_step_ms + terms.pass_ms) / terms.tau;
}

double edge_ms(const MapPoint& point, Strategy strategy, int gamma) {
  LawTerms terms = terms_of(point, gamma);
  if (strategy != Strategy::kSd) terms.left_rate = 1 - point.hit_rate;
  if (strategy == Strategy::kMirror) terms.synced_rate = point.hit_rate;
  return law_ms(strategy, terms);
}

}  // namespace

std::vector<MapChoice> map_choices(const MapPoint& point, int max_gamma) {
  std::vector<MapChoice> choices = {{.ms = point.pass.ms(1)},
                                    {.name = "sd", .letter = 's'},
                                    {.name = "fsd", .letter = 'f'},
                                    {.name = "mirror", .letter = 'm'},
                                    {.name = "sd-cloud", .letter = 'c'}};
  for (int gamma = 1; gamma <= max_gamma; ++gamma) {
    const double times[] = {edge_ms(point, Strategy::kSd, gamma),
                            edge_ms(point, Strategy::kFsd, gamma),
                            edge_ms(point, Strategy::kMirror, gamma), cloud_ms(point, gamma)};
    for (std::size_t i = 1; i < choices.size(); ++i) {
      MapChoice& choice = choices[i];
      if (choice.gamma > 0 && choice.ms <= times[i - 1]) continue;
      choice.ms = times[i - 1];
      choice.gamma = gamma;
    }
  }
  return choices;
}

MapChoice fastest_at(const MapPoint& point, int max_gamma, bool draft_in_cloud) {
  std::vector<MapChoice> choices = map_choices(point, max_gamma);
  if (!draft_in_cloud) choices.pop_back();
  return *std::ranges::min_element(choices, {}, &MapChoice::ms);
}

std::vector<TokenParts> figure1_parts(const LawTerms& round, double plain_pass_ms,
                                      double cloud_step_ms) {
  const double drafting = round.gamma * round.step_ms / round.tau;
  const double target = round.pass_ms / round.tau, link = 2 * round.one_way_ms / round.tau;
  const double waited = round.waited_rate();
  return {{"(a) cloud decoding", 0, 0, plain_pass_ms},
          {"(b) speculation in the cloud", round.gamma * cloud_step_ms / round.tau, 0, target},
          {"(c) drafting on the edge", drafting, link, target},
          {"(d) with pre-drafting", round.left_rate * drafting, link, target},
          {"ours, rounds sent ahead", std::min(round.left_rate, waited) * drafting, waited * link,
           target}};
}

}  // namespace outrider
