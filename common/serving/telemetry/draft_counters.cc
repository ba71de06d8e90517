// SPDX-License-Identifier: Apache-2.0
#include "common/serving/telemetry/draft_counters.h"

#include <cstddef>

namespace outrider {

DraftCounters::DraftCounters(MetricRegistry& registry, const std::string& prefix,
                             const MetricLabels& labels)
    : rounds_(registry
                  .counters(prefix + "spec_decode_num_drafts_total",
                            "Passes that checked drafted tokens", labels)
                  .with({})),
      tokens_(registry
                  .counters(prefix + "spec_decode_num_draft_tokens_total",
                            "Drafted tokens that passes checked", labels)
                  .with({})),
      accepted_(registry
                    .counters(prefix + "spec_decode_num_accepted_tokens_total",
                              "Drafted tokens that became text", labels)
                    .with({})),
      accepted_at_(registry.counters(
          prefix + "spec_decode_num_accepted_tokens_per_pos_total",
          "Passes that accepted a drafted token at this position, from 0", labels)) {}

void DraftCounters::add(const Counts& counts) {
  rounds_.add(static_cast<double>(counts.rounds));
  tokens_.add(static_cast<double>(counts.tokens));
  accepted_.add(static_cast<double>(counts.accepted));
  for (std::size_t i = 0; i < counts.accepted_at.size(); ++i) {
    accepted_at_.with({{"position", std::to_string(i)}})
        .add(static_cast<double>(counts.accepted_at[i]));
  }
}

}  // namespace outrider
