// SPDX-License-Identifier: Apache-2.0
#include "edge_client/report/answer_record.h"

#include "common/base/json_record.h"

namespace outrider {

TrafficRecord TrafficRecord::of(const LinkTraffic& bytes, std::uint64_t tokens) {
  TrafficRecord record{.bytes = bytes};
  if (tokens == 0) return record;
  record.per_token_up = static_cast<double>(bytes.framed_up) / static_cast<double>(tokens);
  record.per_token_down = static_cast<double>(bytes.framed_down) / static_cast<double>(tokens);
  return record;
}

UnverifiedRecord UnverifiedRecord::of(const std::optional<DeadlineDecorator::Given>& given,
                                      TimePoint came_at) {
  if (!given) return {};
  return {.text = given->text,
          .whole = given->whole,
          .verified_tokens = given->verified,
          .after_ms = to_ms(given->at - came_at)};
}

void UnverifiedRecord::settle(Ending ending, const std::string& answer) {
  outcome.reset();
  if (ending == Ending::kCancelled || ending == Ending::kLinkLost || ending == Ending::kFailed) {
    return;
  }
  if (!after_ms) {
    outcome = UnverifiedOutcome::kInTime;
    return;
  }
  const bool same = whole ? answer == text : answer.starts_with(text);
  outcome = same ? UnverifiedOutcome::kConfirmed : UnverifiedOutcome::kCorrected;
}

std::vector<LogprobRecord> logprob_records(std::span<const TokenId> ids,
                                           std::span<const TokenLogprobs> logprobs) {
  OUTRIDER_CHECK(ids.size() == logprobs.size());
  std::vector<LogprobRecord> records;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    LogprobRecord& record = records.emplace_back(LogprobRecord{ids[i], logprobs[i].chosen});
    for (const Candidate& one : logprobs[i].top) record.top.push_back({one.token, one.score});
  }
  return records;
}

std::string to_line(const AnswerRecord& record) {
  return write_json(record).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<AnswerRecord> read_answer_record(std::string_view line, const std::string& what) {
  OUTRIDER_ASSIGN_OR_RETURN(const Json json, parse_json(line, what));
  return read_json<AnswerRecord>(json, what);
}

}  // namespace outrider
