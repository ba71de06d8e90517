// SPDX-License-Identifier: Apache-2.0
#include "edge_client/serve/answer_form.h"

namespace outrider {

CompletionParams params_of(const AnswerConfig& config) {
  return {.sampling = config.sampling,
          .seed = config.seed,
          .max_tokens = config.max_tokens,
          .stop = config.stop,
          .speculation = config.strategy != Strategy::kAr};
}

AnswerConfig config_of(const CompletionParams& params, const AnswerConfig& defaults) {
  AnswerConfig config = defaults;
  config.sampling = params.sampling;
  config.seed = params.seed;
  config.max_tokens = params.max_tokens;
  config.stop = params.stop;
  if (!params.speculation) config.strategy = Strategy::kAr;
  return config;
}

std::vector<AnswerPiece> pieces_of(const Emit& emit) {
  std::vector<AnswerPiece> pieces;
  for (const Emit::Token& token : emit.tokens) pieces.push_back({token.text, token.drafted});
  return pieces;
}

AnswerEnd end_of(const AnswerReport& report) {
  const Ending ending = report.finish.ending;
  const DecodingStats& stats = report.stats;
  const Result<Json> figures = parse_json(stats_json(report), "the figures");
  return {.by_length = ending == Ending::kLength || ending == Ending::kContextFull,
          .prompt_tokens = stats.prompt_tokens,
          .completion_tokens = report.ids.size(),
          .accepted_tokens = stats.num_accepted_tokens,
          .rejected_tokens = stats.num_draft_tokens - stats.num_accepted_tokens,
          .figures = figures.ok() ? *figures : Json()};
}

Status answer_status(const AnswerReport& report) {
  const Ending ending = report.finish.ending;
  return ending == Ending::kLinkLost || ending == Ending::kFailed ? report.finish.status : Status();
}

}  // namespace outrider
