// SPDX-License-Identifier: Apache-2.0
#include "common/verify/sessions.h"

#include <algorithm>
#include <chrono>
#include <span>

#include "common/base/rate_limit.h"
#include "common/protocol/messages.h"

namespace outrider {
namespace {

// Streams that have not opened a session yet are cheap, but not free: of one group, and of all.
constexpr std::size_t kUnopenedOfGroup = 64;
constexpr std::size_t kUnopenedOfAll = 512;
// What such streams may have gathered of their Opens.
constexpr std::size_t kGatheredBytesOfGroup = std::size_t{16} << 20;
constexpr std::size_t kGatheredBytesOfAll = std::size_t{64} << 20;

std::string seconds(Duration d) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(d).count()) + " s";
}

std::uint64_t& finished_by(SchedulerStats& stats, FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return stats.finished_stop;
    case FinishReason::kLength:
      return stats.finished_length;
    case FinishReason::kCancelled:
      return stats.finished_cancelled;
    case FinishReason::kError:
      break;
  }
  return stats.finished_error;
}

// Adds a session that ends: its Usage, and how it finished; one that broke off is an error.
void count_session(SchedulerStats& stats, const VerifySession& session) {
  const Usage& usage = session.usage();
  ++finished_by(stats, session.finished() ? usage.reason : FinishReason::kError);
  stats.prompt_tokens += usage.prompt_tokens;
  stats.cached_tokens += usage.cached_tokens;
  stats.completion_tokens += usage.completion_tokens;
  stats.dead_on_arrival += usage.dead_on_arrival;
}

void count_reports(SchedulerStats& stats, const ReportCounts& counts) {
  stats.exits_computed += counts.computed;
  stats.reports_sent += counts.sent;
  stats.reports_deduplicated += counts.deduplicated;
  stats.reports_dropped += counts.dropped;
}

KvPoolOptions pool_options(const SchedulerOptions& options, const Limits& limits) {
  KvPoolOptions kv = options.kv;
  kv.capacity = cache_capacity(limits);
  return kv;
}

}  // namespace

Sessions::Sessions(Model& model, const SchedulerOptions& options)
    : options_(options),
      target_(make_target(model.info(), options)),
      pool_(model, pool_options(options, target_.limits)) {}

void Sessions::connect(StreamId stream, std::string session_id, TimePoint now, PassHooks hooks,
                       StreamOwner owner) {
  const auto [at, fresh] = streams_.try_emplace(
      stream, VerifyStream({.id = std::move(session_id), .key = {}, .owner = std::move(owner)},
                           std::move(hooks), now));
  OUTRIDER_CHECK(fresh);
  at->second.join(turns_);
  if (too_many_unopened(at->second.group())) {
    close(at, overloaded(stream, "too many streams wait to open a session"), now);
  }
}

void Sessions::receive(StreamId id, const EdgeMessage& message, TimePoint now) {
  const auto at = streams_.find(id);
  if (at == streams_.end()) return;
  VerifyStream& stream = at->second;
  Status status = stream.check_reports(message);
  if (status.ok()) {
    if (stream.session() != nullptr) {
      status = stream.receive(message, now);
    } else {
      status = receive_unopened(at, message, now);
    }
  }
  flush(id, stream);
  if (!status.ok()) return close(at, status, now);
  if (stream.assembly() != nullptr) return bound_gathered(stream.group(), now);
  if (stream.session() != nullptr && stream.session()->finished()) close(at, {}, now);
}

bool Sessions::too_many_unopened(const std::string& group) const {
  std::size_t of_all = 0;
  std::size_t of_group = 0;
  for (const auto& [id, stream] : streams_) {
    if (stream.session() != nullptr) continue;
    ++of_all;
    if (stream.group() == group) ++of_group;
  }
  return of_group > kUnopenedOfGroup || of_all > kUnopenedOfAll;
}

// Of the streams that gather their Opens, who has to give way now that this group has more.
std::optional<StreamId> Sessions::gathered_too_much(const std::string& group) const {
  GroupShares shares(kGatheredBytesOfGroup, kGatheredBytesOfAll);
  for (const auto& [id, stream] : streams_) {
    if (stream.assembly() != nullptr) shares.add(id, stream.group(), stream.assembly()->bytes());
  }
  return shares.beyond(group);
}

// A stream of this group has gathered more of its Open; it may be the one that goes, and its name
// with it.
void Sessions::bound_gathered(std::string group, TimePoint now) {
  while (const std::optional<StreamId> most = gathered_too_much(group)) {
    close(streams_.find(*most), overloaded(*most, "too much waits to open a session"), now);
  }
}

// A message of a stream without a session: gathers the prefix, checks the Open, admits.
Status Sessions::receive_unopened(Streams::iterator at, const EdgeMessage& message, TimePoint now) {
  if (at->second.assembly() != nullptr) return gather_prefix(at, message, now);
  return begin_opening(at, message, now);
}

// The first message of a stream.
Status Sessions::begin_opening(Streams::iterator at, const EdgeMessage& message, TimePoint now) {
  VerifyStream& stream = at->second;
  const auto* asked = std::get_if<Open>(&message.body);
  if (asked == nullptr) {
    return failed_precondition("the first message of a stream must be Open");
  }
  if (asked->prefix_length == 0) return open_session(at, message, now);
  OUTRIDER_RETURN_IF_ERROR(check_open_head(*asked, target_));
  if (asked->prefix_hash.empty()) {
    stream.assemble(message, now);
    return {};
  }
  const SessionName wanted{asked->replaced_session, asked->session_key, stream.name().owner};
  EdgeMessage whole = message;
  auto& filled = std::get<Open>(whole.body);
  filled.prefix = known_prefix(wanted, *asked);
  if (filled.prefix.empty()) {
    stream.assemble(message, now);
    events_.push_back({at->first, Notice{Notice::Kind::kSendPrefix, Duration{0}}});
    return {};
  }
  filled.prefix_length = 0;
  filled.prefix_hash.clear();
  return open_session(at, whole, now);
}

// A message of a stream whose prefix is not complete.
Status Sessions::gather_prefix(Streams::iterator at, const EdgeMessage& message, TimePoint now) {
  VerifyStream& stream = at->second;
  OUTRIDER_RETURN_IF_ERROR(stream.assembly()->take(message, now));
  if (!stream.assembly()->complete()) return {};
  std::vector<EdgeMessage> messages = stream.assembled();
  auto& whole = std::get<Open>(messages.front().body);
  if (!whole.prefix_hash.empty() && prefix_hash(whole.prefix) != whole.prefix_hash) {
    return invalid_argument("Open.prefix_hash: is not that of the ids in the Prefix messages");
  }
  whole.prefix_hash.clear();
  OUTRIDER_RETURN_IF_ERROR(open_session(at, messages.front(), now));
  for (std::size_t i = 1; i < messages.size() && !stream.session()->finished(); ++i) {
    OUTRIDER_RETURN_IF_ERROR(stream.check_reports(messages[i]));
    OUTRIDER_RETURN_IF_ERROR(stream.receive(messages[i], now));
  }
  return {};
}

// The ids that the Open names by their hash, if this session of the same tenant has them; else
// none.
std::vector<TokenId> Sessions::known_prefix(const SessionName& wanted, const Open& open) {
  std::span<const TokenId> text;
  if (const auto at = find_session(wanted); at != streams_.end()) {
    text = at->second.session()->tree().text();
  } else if (const auto* kept = pool_.text_of(wanted)) {
    text = *kept;
  }
  if (static_cast<Position>(text.size()) < open.prefix_length) return {};
  text = text.first(static_cast<std::size_t>(open.prefix_length));
  if (prefix_hash(text) != open.prefix_hash) return {};
  return {text.begin(), text.end()};
}

Status Sessions::open_session(Streams::iterator at, const EdgeMessage& message, TimePoint now) {
  VerifyStream& stream = at->second;
  const Open& open = std::get<Open>(message.body);
  OUTRIDER_RETURN_IF_ERROR(check_open(open, target_));
  OUTRIDER_RETURN_IF_ERROR(
      admit(at->first, {open.replaced_session, open.session_key, stream.name().owner}, now));
  Status status = stream.open(message, target_, pool_, std::max(options_.prefill_chunk, 1u), now);
  if (stream.session() != nullptr) {
    ++sessions_open_;
    ++stats_.sessions_opened;
    return status;
  }
  if (status.code() != StatusCode::kResourceExhausted) return status;
  ++stats_.sessions_refused;
  return short_of_memory(at->first, status.message(), pool_.why_short());
}

Status Sessions::admit(StreamId id, const SessionName& wanted, TimePoint now) {
  if (draining_) {
    ++stats_.sessions_refused;
    return unavailable("this verifier is shutting down; open the session elsewhere or later");
  }
  if (const auto at = find_session(wanted); at != streams_.end()) {
    close(at, cancelled("a newer stream replaces this session"), now);
  }
  if (sessions_open_ < options_.max_concurrent_sessions) return {};
  ++stats_.sessions_refused;
  return overloaded(
      id, "all " + std::to_string(options_.max_concurrent_sessions) + " sessions are taken");
}

Status Sessions::overloaded(StreamId id, const std::string& why) {
  events_.push_back(
      {id, Notice{Notice::Kind::kOverloaded, spread_delay(options_.retry_after, id)}});
  return resource_exhausted(why + "; retry in " + seconds(options_.retry_after));
}

// What there is and how much of it is ours to know.
Status Sessions::short_of_memory(StreamId id, const std::string& told, const std::string& inner) {
  why_short_ = inner;
  return overloaded(id, told);
}

Sessions::Streams::iterator Sessions::find_session(const SessionName& wanted) {
  return std::find_if(streams_.begin(), streams_.end(), [&](const auto& entry) {
    return entry.second.session() != nullptr && names_session(wanted, entry.second.name());
  });
}

void Sessions::disconnect(StreamId stream, TimePoint now) {
  const auto at = streams_.find(stream);
  if (at == streams_.end()) return;
  retire(at->second, now);
  streams_.erase(at);
}

void Sessions::end_stream(StreamId stream, const Status& status, TimePoint now) {
  const auto at = streams_.find(stream);
  if (at != streams_.end()) close(at, status, now);
}

void Sessions::drain() {
  if (std::exchange(draining_, true)) return;
  for (const auto& [id, stream] : streams_) {
    if (stream.session())
      events_.push_back({id, Notice{Notice::Kind::kReconnectSoon, Duration{0}}});
  }
}

void Sessions::tick(TimePoint now) {
  for (auto at = streams_.begin(); at != streams_.end();) {
    const auto next = std::next(at);
    VerifyStream& stream = at->second;
    if (stream.assembly() != nullptr) {
      if (now >= stream.assembly()->deadline(options_.open_timeout)) {
        close(
            at,
            deadline_exceeded("no piece of the prefix came for " + seconds(options_.open_timeout)),
            now);
      }
    } else if (stream.silent(options_.idle_timeout, now) && !stream.wants_device(now)) {
      close(at,
            deadline_exceeded("the answer did not come on for " + seconds(options_.idle_timeout) +
                              "; reconnect to go on"),
            now);
    }
    at = next;
  }
  pool_.expire(now);
}

std::optional<TimePoint> Sessions::wake_at() const {
  std::optional<TimePoint> wake = pool_.next_expiry();
  for (const auto& [id, stream] : streams_) {
    const TimePoint at =
        stream.wake_at(options_.idle_timeout, options_.open_timeout, ready_at(stream));
    wake = wake ? std::min(*wake, at) : at;
  }
  return wake;
}

void Sessions::flush(StreamId id, VerifyStream& stream) {
  for (ServerMessage& message : stream.take_messages()) {
    if (auto* opened = std::get_if<Opened>(&message)) {
      opened->limits.pass_limit = stream.announce_pass_limit(pass_limit_);
      opened->pass_costs = pass_costs_;
      opened->server_version = options_.server_version;
      if (options_.wall_clock) opened->wall_clock = options_.wall_clock();
    }
    if (auto* verdict = std::get_if<Verdict>(&message)) {
      verdict->pass_limit = stream.announce_pass_limit(pass_limit_);
    }
    events_.push_back({id, std::move(message)});
  }
}

void Sessions::close(Streams::iterator at, const Status& status, TimePoint now) {
  retire(at->second, now);
  events_.push_back({at->first, StreamEnded{status, std::exchange(why_short_, {})}});
  streams_.erase(at);
}

void Sessions::count_end(const VerifyStream& stream, TimePoint now) {
  count_session(stats_, *stream.session());
  count_reports(stats_, stream.report_counts());
  if (!options_.on_session_end) return;
  records_.push_back(stream.record(now));
  if (!options_.joules) records_.back().joules.reset();  // nobody was asked
}

// Only for a stream that is erased next.
void Sessions::retire(VerifyStream& stream, TimePoint now) {
  if (!stream.session()) return;
  count_end(stream, now);
  stream.retire(pool_, now);
  --sessions_open_;
}

void Sessions::break_off(Streams::iterator at, const Status& why, TimePoint now) {
  if (why.code() != StatusCode::kResourceExhausted) return close(at, why, now);
  starve(at, "this verifier is short of memory for this pass", why.message(), now);
}

// Its memory goes to the others.
void Sessions::starve(Streams::iterator at, const std::string& told, const std::string& inner,
                      TimePoint now) {
  count_end(at->second, now);
  at->second.discard(pool_);
  --sessions_open_;
  close(at, short_of_memory(at->first, told, inner), now);
}

// When the stream's tenant may have its next turn; in the past: now.
TimePoint Sessions::ready_at(const VerifyStream& stream) const {
  if (!options_.tenant_ready_at) return TimePoint{};
  return options_.tenant_ready_at(stream.name().owner.tenant);
}

std::vector<TurnSeeker> Sessions::turn_seekers(TimePoint now) const {
  std::vector<TurnSeeker> seekers;
  for (const auto& [id, stream] : streams_) {
    if (stream.session() == nullptr) continue;
    seekers.push_back({.stream = id,
                       .group = stream.group(),
                       .joined = stream.joined(),
                       .served = stream.served(),
                       .wants = stream.wants_device(now) && ready_at(stream) <= now});
  }
  return seekers;
}

// Prompt tokens that the next pass may read in all: a prompt keeps nobody waiting who awaits a
// verdict.
std::size_t Sessions::shared_prefill(const std::vector<TurnSeeker>& seekers) const {
  const bool awaited = std::ranges::any_of(seekers, [&](const TurnSeeker& seeker) {
    return seeker.wants && !streams_.at(seeker.stream).session()->is_prefilling();
  });
  return awaited ? std::max(options_.prefill_budget, 1u) : VerifySession::kAnyTokens;
}

std::vector<Rider> Sessions::next_pass(TimePoint now) {
  std::vector<Rider> riders;
  const std::vector<TurnSeeker> seekers = turn_seekers(now);
  TurnOrder order(seekers);
  std::size_t prefill_left = shared_prefill(seekers);
  std::size_t rows_left = options_.max_batched_rows;
  while (const std::optional<StreamId> turn = order.next()) {
    const auto next = streams_.find(*turn);
    VerifyStream& stream = next->second;
    const bool reads_prompt = stream.session()->is_prefilling();
    std::size_t most_tokens = VerifySession::kAnyTokens;
    if (reads_prompt)
      most_tokens = riders.empty() ? prefill_left : std::min(prefill_left, rows_left);
    if (most_tokens == 0) continue;
    // The first has the pass, however many rows that takes.
    if (!riders.empty() && stream.session()->rows_at_most(most_tokens) > rows_left) break;
    if (const Status room = stream.reserve(pool_); !room.ok()) {
      starve(next, room.message(), pool_.why_short(), now);
      continue;
    }
    stream.serve(++turns_);
    order.serve(turns_);
    const PassPlan& plan = riders.emplace_back(stream.start(*turn, now, most_tokens)).plan;
    if (reads_prompt) prefill_left -= std::min(prefill_left, plan.tokens.size());
    rows_left -= std::min(rows_left, plan.rows());
    flush(*turn, stream);
  }
  return riders;
}

void Sessions::finished_pass(Streams::iterator at, bool decided, TimePoint now) {
  at->second.touch(now);
  const std::optional<Duration> gap = at->second.session()->book().last_gap();
  if (decided && gap && options_.on_verdict_gap) options_.on_verdict_gap(*gap);
  flush(at->first, at->second);
  if (at->second.session()->finished()) close(at, {}, now);
}

const VerifySession* Sessions::session(StreamId stream) const {
  const auto at = streams_.find(stream);
  return at == streams_.end() ? nullptr : at->second.session();
}

SchedulerStats Sessions::stats() const {
  SchedulerStats stats = stats_;
  stats.streams_open = streams_.size();
  stats.sessions_open = sessions_open_;
  stats.caches_kept = pool_.size();
  stats.kv_bytes = pool_.used_bytes();
  for (const auto& [id, stream] : streams_) count_reports(stats, stream.report_counts());
  return stats;
}

}  // namespace outrider
