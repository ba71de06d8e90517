// SPDX-License-Identifier: Apache-2.0
#include "bench/report/cell_use.h"

namespace outrider {

AnswerUse use_of(std::span<const EdgeAnswer* const> answers) {
  AnswerUse use;
  const auto count = static_cast<double>(answers.size());
  const auto add = [count](double& mean, double value) { mean += value / count; };
  for (const EdgeAnswer* answer : answers) {
    const AnswerRecord& record = answer->record;
    add(use.input_tokens, static_cast<double>(record.prompt_tokens));
    add(use.output_tokens, static_cast<double>(record.completion_tokens));
    add(use.passes, static_cast<double>(record.passes));
    add(use.rounds, static_cast<double>(record.num_drafts));
    add(use.drafted, static_cast<double>(record.num_draft_tokens));
    add(use.first_ms, record.ttft_ms.value_or(0));
    add(use.decode_ms, record.decode_ms.value_or(0));
    add(use.first_target_ms, to_ms(record.first_verdict.compute));
    add(use.target_ms, to_ms(record.target_compute - record.first_verdict.compute));
    add(use.draft_ms, to_ms(record.draft_compute));
    add(use.draft_steps, static_cast<double>(record.draft_steps));
    add(use.bytes, answer->figures.wire_up + answer->figures.wire_down);
  }
  return use;
}

}  // namespace outrider
