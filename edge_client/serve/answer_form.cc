// SPDX-License-Identifier: Apache-2.0
#include "edge_client/serve/answer_form.h"

#include <utility>

#include "common/base/json_record.h"
#include "edge_client/report/answer_ledger.h"

namespace outrider {

CompletionParams params_of(const AnswerConfig& config) {
  return {.text = config.text,
          .speculation = config.speculation.strategy != Strategy::kAr,
          .wish = config.wish};
}

AnswerConfig config_of(const CompletionParams& params, const AnswerConfig& defaults) {
  AnswerConfig config = defaults;
  config.text = params.text;
  config.wish = params.wish;
  if (!params.speculation) config.speculation.strategy = Strategy::kAr;
  return config;
}

std::vector<AnswerPiece> pieces_of(const Emit& emit) {
  std::vector<AnswerPiece> pieces;
  for (const Emit::Token& token : emit.tokens) {
    pieces.push_back({token.text, token.drafted, token.id >= 0, token.id, token.logprobs});
  }
  return pieces;
}

AnswerEnd end_of(const AnswerReport& report, bool with_figures) {
  const Ending ending = report.finish.ending;
  const DecodingStats& stats = report.record.stats;
  AnswerEnd end{.by_length = ending == Ending::kLength || ending == Ending::kContextFull,
                .stop_text = report.stop_string,
                .usage = {.prompt_tokens = stats.prompt_tokens,
                          .cached_tokens = ledger_entry(report.record).cached_tokens,
                          .completion_tokens = report.record.ids.size(),
                          .accepted_tokens = stats.num_accepted_tokens,
                          .rejected_tokens = stats.num_draft_tokens - stats.num_accepted_tokens},
                .seed = report.record.seed,
                .record = report.record_lines};
  if (report.record.level) end.level = write_json(*report.record.level);
  if (report.record.unverified) end.unverified = write_json(*report.record.unverified);
  if (!with_figures) return end;
  Result<Json> figures = parse_json(stats_json(report), "the figures");
  if (figures.ok()) end.figures = *std::move(figures);
  return end;
}

Status answer_status(const AnswerReport& report) {
  const Ending ending = report.finish.ending;
  if (ending == Ending::kCancelled) {
    return unavailable("the answer was cut before its end; ask again");
  }
  if (ending != Ending::kLinkLost && ending != Ending::kFailed) return {};
  const Status& status = report.finish.status;
  // The server refused this edge's key: that is not for the client to mend.
  if (status.code() == StatusCode::kUnauthenticated) return internal_error(status.message());
  return status;
}

}  // namespace outrider
