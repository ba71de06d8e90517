// SPDX-License-Identifier: Apache-2.0
#include "edge_client/doctor/link_doctor.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "edge_client/verifiers/link_speed.h"

namespace outrider {
namespace {

constexpr std::size_t kScreening = 2;  // prompts on which all candidates are tried
// Prompts that decide on the best of them, at least: fewer of a kind look alike by chance, and
// would end the judging before the other kind was seen.
constexpr std::size_t kJudging = 12;
constexpr std::size_t kMinJudging = 4;  // where each can be asked only once
// More are taken while the interval is wide, for so long.
constexpr Duration kJudgeFor = std::chrono::seconds(180);

}  // namespace

void ServerNotes::on_opened(const Opened& opened, Duration took, bool /*reconnected*/) {
  opened_ = opened;
  server_drafts_ = server_drafts_ || opened.server_drafts;
  const auto here =
      std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch());
  if (opened.wall_clock == Duration{0} || (clock_ && clock_->uncertain <= took / 2)) return;
  clock_ = ClockOffset{opened.wall_clock - (here - took / 2), took / 2};
}

LinkDoctor::LinkDoctor(const GenerationConfig& config, EdgeSetup& setup, ServerNotes& notes,
                       AnswerListener& listener, TrialAnswers& trials)
    : config_(config),
      link_(setup.parts().link),
      notes_(notes),
      generator_(setup.parts(&notes), listener),
      trials_(trials) {}

Result<Advice> LinkDoctor::examine() {
  // It also shows whether the server drafts.
  const Candidate first{config_.draft_at, {.who = {}, .strategy = Strategy::kMirror}};
  OUTRIDER_RETURN_IF_ERROR(trials_.warm_up(generator_, begin(first), first.way));
  const std::vector<Candidate> all = candidates();
  const std::size_t screening = finds_again() ? all.size() : kScreening;
  if (finds_again() && trials_.prompts() < screening + kMinJudging) {
    return invalid_argument("doctor needs " + std::to_string(screening + kMinJudging) +
                            " prompts where look-up or the server drafts, which find again what "
                            "was answered, and has " +
                            std::to_string(trials_.prompts()) +
                            ". Remedy: more -p of different text, or none");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const Candidate best, screen(all, screening));
  std::vector<Trial> trials;
  const TimePoint until = std::chrono::steady_clock::now() + kJudgeFor;
  std::size_t least = screening + kJudging;
  if (finds_again()) least = std::min(least, trials_.prompts());
  for (std::size_t i = screening; i < least || wants_more(i, trials, until); ++i) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::optional<Trial> trial, compare(i, best));
    if (trial) trials.push_back(*trial);
  }
  if (trials.size() < 2) return too_few_trials();
  Advice advice = advise(best.way, trials);
  if (notes_.server_drafts()) advice.plain.who = "--draft-at edge";
  return advice;
}

Result<Surroundings> LinkDoctor::surroundings() const {
  Surroundings found = surroundings_of(trials_.records(), trials_.round_trips_ms());
  if (link_ == nullptr) return found;
  OUTRIDER_ASSIGN_OR_RETURN(const RemoteOptions server, remote_options(config_));
  Result<LinkSpeed> speed = measure_link_speed(server, trials_.stop());
  if (!speed.ok() && speed.status().code() != StatusCode::kUnimplemented) return speed.status();
  if (speed.ok()) found.speed = *speed;
  return found;
}

// Whether the prompt comes for the first time and would add something.
bool LinkDoctor::wants_more(std::size_t prompt, const std::vector<Trial>& trials,
                            TimePoint until) const {
  return prompt < trials_.prompts() && std::chrono::steady_clock::now() < until &&
         (trials.size() < 2 || !is_settled(speed_up(trials)));
}

// Whether a text that was answered before is drafted from that answer: by look-up on this side, or
// by what the server drafts.
bool LinkDoctor::finds_again() const {
  return drafts_by_lookup(config_) || notes_.server_drafts();
}

// Over a connection of its own, as each answer of `outrider-edge run` has: a draft gets ahead while
// it is made.
AnswerConfig LinkDoctor::begin(const Candidate& candidate) {
  AnswerConfig config = config_.answer;
  config.accepts_server_nodes = candidate.side != DraftSide::kEdge;
  if (candidate.side == DraftSide::kServer) config.speculation.strategy = Strategy::kAr;
  if (link_ != nullptr) link_->disconnect();
  return config;
}

Result<TrialAnswers::Taken> LinkDoctor::answer(std::size_t prompt, const Candidate& candidate) {
  return trials_.answer(generator_, prompt, begin(candidate), candidate.way);
}

// Where the server drafts too, who drafts matters more than how long a round is. Each candidate
// more takes a prompt more, where answers are found again.
std::vector<LinkDoctor::Candidate> LinkDoctor::candidates() const {
  const auto way = [](Strategy strategy, int gamma, std::string who = {}) {
    return DraftingWay{.who = std::move(who), .strategy = strategy, .gamma = gamma};
  };
  if (config_.draft_at == DraftSide::kAuto && notes_.server_drafts()) {
    return {{DraftSide::kEdge, way(Strategy::kSd, 4, "--draft-at edge")},
            {DraftSide::kEdge, way(Strategy::kMirror, 8, "--draft-at edge")},
            {DraftSide::kAuto, way(Strategy::kMirror, 8, "--draft-at auto")},
            {DraftSide::kServer, {.who = "--draft-at server", .strategy = {}}}};
  }
  if (finds_again()) {
    return {{DraftSide::kEdge, way(Strategy::kSd, 4)},
            {DraftSide::kEdge, way(Strategy::kMirror, 8)}};
  }
  return {{DraftSide::kEdge, way(Strategy::kSd, 3)},
          {DraftSide::kEdge, way(Strategy::kSd, 6)},
          {DraftSide::kEdge, way(Strategy::kFsd, 4)},
          {DraftSide::kEdge, way(Strategy::kMirror, 4)},
          {DraftSide::kEdge, way(Strategy::kMirror, 8)}};
}

// A later candidate may find the answer again, so each comes first, second and so on equally often.
Result<LinkDoctor::Candidate> LinkDoctor::screen(const std::vector<Candidate>& all,
                                                 std::size_t prompts) {
  std::vector<double> sums(all.size());
  for (std::size_t prompt = 0; prompt < prompts; ++prompt) {
    for (std::size_t turn = 0; turn < all.size(); ++turn) {
      const std::size_t i = (prompt + turn) % all.size();
      OUTRIDER_ASSIGN_OR_RETURN(const TrialAnswers::Taken taken, answer(prompt, all[i]));
      sums[i] += taken.ms.value_or(0);
    }
  }
  return all[static_cast<std::size_t>(std::ranges::min_element(sums) - sums.begin())];
}

// The candidate first: the server then keeps the prompt's cache, and answers the second time at
// once. That makes no difference to plain decoding; a draft gets ahead while the server reads the
// prompt.
Result<std::optional<Trial>> LinkDoctor::compare(std::size_t prompt, const Candidate& candidate) {
  OUTRIDER_ASSIGN_OR_RETURN(const TrialAnswers::Taken drafted, answer(prompt, candidate));
  OUTRIDER_ASSIGN_OR_RETURN(
      const TrialAnswers::Taken plain,
      answer(prompt, {DraftSide::kEdge, {.who = {}, .strategy = Strategy::kAr}}));
  if (link_ == nullptr && plain.ids != drafted.ids) {
    trials_.note(
        "prompt " + std::to_string(prompt + 1) +
        ": not counted, because the server's bits gave another text than plain decoding\n");
    return std::optional<Trial>();
  }
  return trial_of(plain, drafted, candidate.way);
}

}  // namespace outrider
