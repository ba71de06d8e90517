// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/scheduling/seating.h"

#include <algorithm>

namespace outrider {
namespace {

constexpr double kKeepBusy = 0.9;  // of the older passes' weight, per pass
// A node of the server's own that stands with less chance is never worth a row.
constexpr double kMinGuessChance = 0.1;
// By so many rows more it is judged what one costs.
constexpr std::size_t kRowsMore = 8;

bool rides(std::span<const Rider> riders, StreamId stream) {
  return std::ranges::any_of(riders, [&](const Rider& rider) { return rider.stream == stream; });
}

std::vector<MemoryHolder> memory_holders(const VerifyStreams& streams,
                                         std::span<const Rider> riders, TimePoint now) {
  std::vector<MemoryHolder> holders;
  for (const auto& [id, stream] : streams) {
    if (!stream.holds_memory() || rides(riders, id)) continue;
    holders.push_back(stream.memory_holder(id, now));
  }
  return holders;
}

}  // namespace

bool Seating::may_have_turn(const VerifyStream& stream, TimePoint now) const {
  return stream.wants_device(now) && options_.ready_at(stream.name().owner) <= now;
}

std::vector<TurnSeeker> Seating::turn_seekers(TimePoint now) const {
  std::vector<TurnSeeker> seekers;
  for (const auto& [id, stream] : streams_) {
    if (stream.session() == nullptr) continue;
    seekers.push_back({.stream = id,
                       .group = stream.group(),
                       .rank = stream.rank(),
                       .joined = stream.joined(),
                       .served = stream.served(),
                       .wants = may_have_turn(stream, now)});
  }
  return seekers;
}

// How many await a verdict of the next pass: a prompt keeps them waiting only for so long.
std::size_t Seating::awaiting(std::span<const TurnSeeker> seekers) const {
  return static_cast<std::size_t>(std::ranges::count_if(seekers, [&](const TurnSeeker& seeker) {
    return seeker.wants && !streams_.at(seeker.stream).session()->is_prefilling();
  }));
}

// Prompt tokens of a pass that the stream's group may read, where so many others await a verdict
// and have so many rows. A group that has had its share of the device makes the pass longer by no
// more than that, if only for others' prompts.
std::size_t Seating::prompt_tokens(const VerifyStream& stream, std::span<const TurnSeeker> seekers,
                                   std::size_t awaited, std::size_t rows) const {
  const bool is_greedy = shares_.weight(stream.group()) < 1;
  const auto is_of_others = [&](const TurnSeeker& seeker) {
    return seeker.wants && seeker.group != stream.group();
  };
  if (awaited == 0 && !(is_greedy && std::ranges::any_of(seekers, is_of_others))) {
    return PassBounds::kAny;
  }
  const double part = std::min(1.0, weight_of(stream.session()->opened().service_tier));
  const double budget = awaited > 0 ? options_.prefill_budget : options_.max_batched_rows;
  const auto most = std::max<std::size_t>(static_cast<std::size_t>(part * budget), 1);
  if (!is_greedy) return most;
  const RowCurve& curve = passes(true).curve;
  const double longest = curve.time(rows) / (1 - shares_.free_part());
  std::size_t tokens = 1;
  while (tokens < most && curve.time(rows + tokens + 1) <= longest) ++tokens;
  return tokens;
}

// All that may ride, in the order of turns, with what each would have.
std::vector<Seating::Candidate> Seating::candidates(const std::set<StreamId>& without_memory,
                                                    TimePoint now) const {
  std::vector<Candidate> candidates;
  const std::vector<TurnSeeker> seekers = turn_seekers(now);
  TurnOrder order(seekers);
  const std::size_t awaited = awaiting(seekers);
  std::size_t prefill_left = awaited > 0 ? std::max(options_.prefill_budget, 1u) : PassBounds::kAny;
  std::map<std::string_view, std::size_t> prompt_rows;  // by group
  std::size_t rows_left = options_.max_batched_rows;
  while (const std::optional<StreamId> turn = order.next()) {
    const VerifyStream& stream = streams_.at(*turn);
    const VerifySession& session = *stream.session();
    if (rows_left == 0) break;
    if (without_memory.contains(*turn)) continue;
    Candidate next{.stream = *turn, .bounds = {}, .offer = {.weight = weight(stream)}};
    if (session.is_prefilling()) {
      // The first has the pass, however many rows its prompt takes.
      next.bounds.tokens = candidates.empty() ? prefill_left : std::min(prefill_left, rows_left);
      const std::size_t had = prompt_rows[stream.group()];
      const std::size_t others = std::max(awaited, options_.max_batched_rows - rows_left - had);
      const std::size_t most = prompt_tokens(stream, seekers, awaited, others);
      next.bounds.tokens = std::min(next.bounds.tokens, most - std::min(most, had));
      const auto reads_the_same = [&](const Candidate& other) {
        return stream.will_be_read_by(streams_.at(other.stream));
      };
      if (next.bounds.tokens == 0 || std::ranges::any_of(candidates, reads_the_same)) continue;
      PassBounds text = next.bounds;
      text.nodes = 0;
      next.offer.prompt_rows = session.rows_at_most(text);
      prefill_left -= std::min(prefill_left, next.offer.prompt_rows);
      prompt_rows[stream.group()] += next.offer.prompt_rows;
    }
    next.offer.is_plain = !session.recorder().drafts();
    if (!is_without_drafts(number_ + 1)) next.offer.chances = session.chances(next.bounds);
    rows_left -= std::min(rows_left, std::max(next.offer.prompt_rows, std::size_t{1}));
    order.serve(turns_ + candidates.size() + 1);
    candidates.push_back(std::move(next));
  }
  return candidates;
}

double Seating::weight(const VerifyStream& stream) const {
  return weight_of(stream.session()->opened().service_tier) * shares_.weight(stream.group());
}

// The weighted tokens that all riding and waiting sessions would get in a second; other sessions
// count as far as they are likely to come meanwhile.
double Seating::price(TimePoint now) const {
  double price = 0;
  for (const auto& [id, stream] : streams_) {
    if (stream.session() == nullptr) continue;
    const double comes = stream.wants_device(now) ? 1 : busy_;
    price += comes * weight(stream) * stream.session()->recorder().tokens_per_s(now);
  }
  return price;
}

// The worth of a second to a row and to a draft: the tokens that all get now, and no less than they
// would get without drafts: else nodes that just pay would hold the price down at which they do. To
// a draft a session alone pays too: what it would get itself.
Seating::Worth Seating::worth(TimePoint now) const {
  double plain = 0;
  std::size_t sessions = 0;
  bool reads = false;
  for (const auto& [id, stream] : streams_) {
    if (stream.session() == nullptr || !stream.wants_device(now)) continue;
    plain += weight(stream);
    reads = reads || stream.session()->is_prefilling();
    ++sessions;
  }
  const auto& [costs, curve, last_rows] = passes(reads);
  const double pass = curve.time(sessions);
  const double row = curve.time(last_rows + kRowsMore) - curve.time(last_rows);
  return {.price = std::max(price(now), pass > 0 ? plain / pass : 0),
          .row_seconds = row / kRowsMore,
          .sessions = sessions,
          .pass_seconds = pass};
}

// Guesses of the server's own, where they are worth their rows.
void Seating::draft_without_model(TimePoint now) const {
  const auto drafts = [](const auto& entry) {
    const VerifySession* const session = entry.second.session();
    return session != nullptr && session->drafts_without_model();
  };
  if (is_without_drafts(number_ + 1) || std::ranges::none_of(streams_, drafts)) return;
  const Worth worth_now = worth(now);
  const double row = is_trial(number_ + 1) ? 0 : worth_now.price * worth_now.row_seconds;
  for (auto& [id, stream] : streams_) {
    if (stream.session() == nullptr || !stream.wants_device(now)) continue;
    stream.drafted()->draft_without_model(std::max(kMinGuessChance, row / weight(stream)),
                                          sessions_.texts().of(stream.name().owner.tenant, now));
  }
}

Status Seating::draft(ModelDraft& draft, const Clock& clock) const {
  const TimePoint now = clock.now();
  const Worth worth_now = worth(now);
  // A pass that the sessions' texts fill has no row for a guess.
  if (is_without_drafts(number_ + 1) || worth_now.sessions >= options_.max_batched_rows) {
    return draft.draft({}, {}, clock);
  }
  draft_without_model(now);
  std::vector<ModelDraft::Client> clients;
  for (auto& [id, stream] : streams_) {
    if (stream.session() == nullptr || !may_have_turn(stream, now)) continue;
    if (!stream.session()->may_draft()) continue;
    clients.push_back({id, stream.drafted(), &stream.name().owner, weight(stream)});
  }
  return draft.draft(clients, worth_now, clock);
}

void Seating::Passes::add(std::size_t rows, Duration took) {
  costs.add(rows, false, took);
  curve = costs.curve();
  last_rows = rows;
}

bool Seating::reads_prompt(std::span<const Candidate> candidates) {
  return std::ranges::any_of(
      candidates, [](const Candidate& candidate) { return candidate.offer.prompt_rows > 0; });
}

// A session alone has all its rows.
RowBounds Seating::row_bounds(std::span<const Candidate> candidates, TimePoint now) {
  RowBounds bounds;
  const RowOffer& first = candidates.front().offer;
  const std::size_t first_rows = std::max(first.prompt_rows, std::size_t{1}) + first.chances.size();
  bounds.most_rows = std::max<std::size_t>(options_.max_batched_rows, first_rows);
  const auto has_session = [](const auto& entry) { return entry.second.session() != nullptr; };
  const bool alone = std::ranges::count_if(streams_, has_session) == 1;
  const std::uint64_t pass = ++number_;
  const bool trial = is_trial(pass);
  const bool priced = options_.price_rows && !alone && !trial && !is_without_drafts(pass);
  if (priced) bounds.price = worth(now).price;
  if (trial) {
    const std::size_t last = passes(reads_prompt(candidates)).last_rows;
    const std::size_t most = std::max({first_rows, 2 * last, candidates.size()});
    bounds.most_rows = std::min(bounds.most_rows, most);
  }
  return bounds;
}

std::vector<Rider> Seating::next_pass(TimePoint now) {
  std::vector<Rider> riders;
  std::set<StreamId> without_memory;  // they wait for it; the others go on
  draft_without_model(now);
  while (riders.empty()) {
    std::vector<Candidate> seated = candidates(without_memory, now);
    if (seated.empty()) break;
    const RowBounds bounds = row_bounds(seated, now);
    const RowCurve& curve = passes(reads_prompt(seated)).curve;
    std::vector<RowOffer> offers;
    for (Candidate& candidate : seated) offers.push_back(std::move(candidate.offer));
    const auto nodes = choose_rows(offers, curve, bounds);
    for (std::size_t i = 0; i < seated.size(); ++i) {
      if (!nodes[i]) continue;
      const StreamId id = seated[i].stream;
      seated[i].bounds.nodes = *nodes[i];
      if (!take_memory(seated[i], riders, now)) {
        without_memory.insert(id);
        continue;
      }
      streams_.at(id).serve(++turns_);
      riders.push_back(streams_.at(id).start(id, now, seated[i].bounds));
    }
  }
  return riders;
}

// Memory for the stream's next pass. Where there is none left, the least urgent gives up its own.
// False: it waits, for those that ride or as the least urgent itself, or was ended because it can
// never go on.
bool Seating::take_memory(const Candidate& candidate, std::span<const Rider> riders,
                          TimePoint now) {
  KvPool& pool = sessions_.pool();
  VerifyStream& stream = streams_.at(candidate.stream);
  const auto reserve = [&] { return stream.reserve(pool, candidate.bounds, now); };
  Status room = reserve();
  const auto is_its_own = [&] { return pool.was_share_short() || pool.was_too_large(); };
  while (!room.ok() && !is_its_own()) {
    const std::vector<MemoryHolder> holders = memory_holders(streams_, riders, now);
    const auto other = least_urgent(holders, {.stream = candidate.stream, .rank = stream.rank()});
    if (!other || (*other == candidate.stream && holders.size() == 1)) break;
    streams_.at(*other).give_up_memory(pool, now);
    ++preemptions_;
    if (*other == candidate.stream) return false;
    room = reserve();
  }
  if (room.ok()) return true;
  const bool others_hold_some = std::ranges::any_of(streams_, [&](const auto& entry) {
    return entry.first != candidate.stream && entry.second.holds_memory();
  });
  if (!others_hold_some || is_its_own()) sessions_.starve(candidate.stream, room, now);
  return false;
}

void Seating::charge(std::span<const Rider> riders) {
  for (const Rider& rider : riders) {
    shares_.charge(streams_.at(rider.stream).group(), rider.rows);
  }
  shares_.end_pass();
}

void Seating::learn(std::size_t rows, bool reads, Duration took, TimePoint ended) {
  if (!reads) of_text_.add(rows, took);
  with_prompts_.add(rows, took);
  const Duration since = last_end_ ? ended - *last_end_ : took;
  if (since > Duration{0}) {
    busy_ =
        kKeepBusy * busy_ + (1 - kKeepBusy) * std::min(1.0, to_seconds(took) / to_seconds(since));
  }
  last_end_ = ended;
}

}  // namespace outrider
