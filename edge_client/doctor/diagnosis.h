// Whether drafting pays off: what trial answers say together.
//
// Candidates are first tried on some prompts; the best of them is then judged on other prompts
// against plain decoding, so that a candidate that was merely lucky does not win.
//
// Thread rule: values and pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/interval.h"
#include "common/base/json.h"
#include "edge_client/report/answer_record.h"
#include "edge_client/speculation/strategy.h"
#include "edge_client/verifiers/link_speed.h"

namespace outrider {

// A way of decoding that may be advised.
struct DraftingWay {
  std::string who = {};                   // flags that say who drafts; empty: who does by default
  std::optional<Strategy> strategy = {};  // nothing: as answers choose it
  int gamma = 4;
};
std::string name_of(const DraftingWay& candidate);  // as flags of outrider-edge

// The time of the same answer, ms, decoded plainly and by the candidate; both above 0.
struct Trial {
  double plain_ms = 0;
  double candidate_ms = 0;
};

struct SpeedUp {
  double value = 1;   // all answers' time decoded plainly over that by the candidate
  Interval interval;  // 95 %, of Student's t over each answer's share in the ratio's logarithm
};

// At least two trials.
SpeedUp speed_up(std::span<const Trial> trials);
// Whether the interval is so narrow that more trials would add little.
bool is_settled(const SpeedUp& speed_up);

// Where the target is.
enum class Where { kLink, kDevice };

struct Advice {
  Where where = Where::kLink;
  bool drafts = false;  // the interval lies above 1
  DraftingWay candidate;
  DraftingWay plain = {.who = {}, .strategy = Strategy::kAr};
  SpeedUp expected;
};
Advice advise(const DraftingWay& candidate, std::span<const Trial> trials);
// Whether the interval lies on one side of 1: else the trials do not show whether drafting pays.
bool is_decided(const Advice& advice);
std::string verdict_of(const Advice& advice);  // one sentence

// The conditions that the answers met, all together.
struct Surroundings {
  std::optional<double> rtt_ms;     // median; of the network, without the server's queue
  std::optional<double> jitter_ms;  // 95th percentile less median
  std::optional<double> step_ms;    // T_p
  bool step_emulated = false;
  std::optional<double> pass_ms;  // T_q, of all passes behind the prefills
  std::optional<double> acceptance;
  std::optional<double> joules;  // per token, of this device; nothing: it does not tell
  double bytes_up = 0;           // per token, framed
  double bytes_down = 0;
  std::optional<LinkSpeed> speed;  // nothing: the server is too old to be asked
};
// round_trips_ms: of passes that were asked for, in any order.
Surroundings surroundings_of(std::span<const AnswerRecord> answers,
                             std::vector<double> round_trips_ms);
std::string to_text(const Surroundings& surroundings);

Json to_json(const Surroundings& surroundings);
Json to_json(const Advice& advice);

}  // namespace outrider
