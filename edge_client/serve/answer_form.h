// Between the edge's answers and the form that OpenAI's clients read (common/serving/openai).
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "common/serving/openai/completion_answer.h"
#include "common/serving/openai/completion_request.h"
#include "edge_client/generation/generation_config.h"
#include "edge_client/report/answer_report.h"
#include "edge_client/session/events.h"

namespace outrider {

CompletionParams params_of(const AnswerConfig& config);
// The rest is the defaults'.
AnswerConfig config_of(const CompletionParams& params, const AnswerConfig& defaults);

std::vector<AnswerPiece> pieces_of(const Emit& emit);
AnswerEnd end_of(const AnswerReport& report, bool with_figures);

// Whether the answer is one: neither cut, nor lost with its link, nor failed.
Status answer_status(const AnswerReport& report);

}  // namespace outrider
