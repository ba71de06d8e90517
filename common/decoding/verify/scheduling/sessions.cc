// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/scheduling/sessions.h"

#include <algorithm>
#include <chrono>
#include <span>

#include "common/base/rate_limit.h"
#include "common/decoding/protocol/messages.h"

namespace outrider {
namespace {

// Streams that have not opened a session yet are cheap, but not free: of one group, and of all.
constexpr std::size_t kUnopenedOfGroup = 64;
constexpr std::size_t kUnopenedOfAll = 512;
// The most bytes of their Opens that such streams may have gathered.
constexpr std::size_t kGatheredBytesOfGroup = std::size_t{16} << 20;
constexpr std::size_t kGatheredBytesOfAll = std::size_t{64} << 20;

std::string seconds(Duration d) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(d).count()) + " s";
}

KvPoolOptions pool_options(const SchedulerOptions& options, const Model& model,
                           const Limits& limits) {
  KvPoolOptions kv = options.kv;
  if (options.draft_model != nullptr) kv = part_of(kv, model.info(), options.draft_model->info());
  kv.capacity = cache_capacity(limits);
  return kv;
}

// The text with which it began was left by an earlier session, except for the tokens by which the
// rest is found.
std::span<const TokenId> new_text_of(const VerifySession& session) {
  const auto known = static_cast<std::size_t>(session.usage().cached_tokens);
  return session.tree().text().subspan(known - std::min(known, MatchFinder::kMaxLength));
}

}  // namespace

Sessions::Sessions(Model& model, const SchedulerOptions& options)
    : options_(options),
      targets_(make_targets(model.info(), options)),
      pool_(model, pool_options(options, model, targets_[0].limits),
            options.max_concurrent_sessions),
      texts_(TenantTextBounds{.kept_for = options.kv.kept_for}) {}

void Sessions::connect(StreamId stream, std::string session_id, TimePoint now, PassHooks hooks,
                       StreamOwner owner) {
  const auto [at, fresh] = streams_.try_emplace(
      stream, VerifyStream({.id = std::move(session_id), .key = {}, .owner = std::move(owner)},
                           std::move(hooks), now));
  OUTRIDER_CHECK(fresh);
  unopened_.insert(stream);
  if (too_many_unopened(at->second.group())) {
    close(at, overloaded(stream, "too many streams wait to open a session"), now);
  }
}

void Sessions::receive(StreamId id, const EdgeMessage& message, TimePoint now) {
  const auto at = streams_.find(id);
  if (at == streams_.end()) return;
  VerifyStream& stream = at->second;
  Status status = stream.check_reports(message);
  if (status.ok() && stream.session() == nullptr) {
    status = receive_unopened(at, message, now);
  } else if (status.ok()) {
    status = stream.receive(message, now);
  }
  flush(id, stream);
  if (!status.ok()) return close(at, status, now);
  if (stream.session() != nullptr && stream.session()->finished()) return close(at, {}, now);
  if (stream.assembly() == nullptr) return;
  bound_gathered(stream.group(), now);
  admit_waiting(now);
}

bool Sessions::too_many_unopened(const std::string& group) const {
  std::size_t of_all = 0, of_group = 0;
  for (const StreamId id : unopened_) {
    const VerifyStream& stream = streams_.at(id);
    if (stream.waits()) continue;
    ++of_all;
    if (stream.group() == group) ++of_group;
  }
  return of_group > kUnopenedOfGroup || of_all > kUnopenedOfAll;
}

// The stream, among those that gather their Opens, that has to give way now that this group has
// more.
std::optional<StreamId> Sessions::gathered_too_much(const std::string& group) const {
  GroupShares shares(kGatheredBytesOfGroup, kGatheredBytesOfAll);
  for (const StreamId id : unopened_) {
    const VerifyStream& stream = streams_.at(id);
    if (stream.assembly() != nullptr) shares.add(id, stream.group(), stream.assembly()->bytes());
  }
  return shares.beyond(group);
}

// A stream of this group has gathered more of its Open; it may be the one that goes, and its name
// with it.
// NOLINTNEXTLINE(performance-unnecessary-value-param): as its owner may go
void Sessions::bound_gathered(std::string group, TimePoint now) {
  while (const std::optional<StreamId> most = gathered_too_much(group)) {
    close(streams_.find(*most), overloaded(*most, "too much waits to open a session"), now);
  }
}

// A message of a stream without a session: gathers the Open, checks it, waits for a place.
Status Sessions::receive_unopened(Streams::iterator at, const EdgeMessage& message, TimePoint now) {
  VerifyStream& stream = at->second;
  if (stream.assembly() != nullptr) {
    OUTRIDER_RETURN_IF_ERROR(stream.assembly()->take(message, now));
  } else {
    OUTRIDER_RETURN_IF_ERROR(begin_opening(at, message, now));
  }
  if (stream.waits() || !stream.assembly()->complete()) return {};
  return wait_for_place(at, now);
}

// The first message of a stream.
Status Sessions::begin_opening(Streams::iterator at, const EdgeMessage& message, TimePoint now) {
  VerifyStream& stream = at->second;
  const auto* asked = std::get_if<Open>(&message.body);
  if (asked == nullptr) {
    return failed_precondition("the first message of a stream must be Open");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::size_t level, find_level(targets_, asked->level));
  stream.set_level(level);
  if (asked->prefix_length > 0) {
    OUTRIDER_RETURN_IF_ERROR(check_open_head(*asked, target_of(stream)));
  }
  EdgeMessage whole = message;
  if (asked->prefix_length > 0 && !asked->prefix_hash.empty()) {
    const SessionName wanted{asked->replaced_session, asked->session_key, stream.name().owner,
                             level};
    std::get<Open>(whole.body).prefix = known_prefix(wanted, *asked);
    if (std::get<Open>(whole.body).prefix.empty()) {
      events_.push_back({at->first, Notice{Notice::Kind::kSendPrefix, Duration{0}}});
    }
  }
  stream.assemble(std::move(whole), now);
  return {};
}

// The Open is whole. A session that it replaces ends now, and its place is kept for it.
Status Sessions::wait_for_place(Streams::iterator at, TimePoint now) {
  VerifyStream& stream = at->second;
  Open open = stream.assembly()->open();
  open.prefix_length = 0;
  if (!open.prefix_hash.empty() && prefix_hash(open.prefix) != open.prefix_hash) {
    return invalid_argument("Open.prefix_hash: is not that of the ids in the Prefix messages");
  }
  open.prefix_hash.clear();
  OUTRIDER_RETURN_IF_ERROR(check_open(open, target_of(stream)));
  if (draining_) {
    ++stats_.sessions_refused;
    return unavailable("this verifier is shutting down; open the session elsewhere or later");
  }
  const auto replaced =
      find_session({open.replaced_session, open.session_key, stream.name().owner});
  stream.wait_for_place(replaced != streams_.end(), now);
  ++waiting_;
  if (replaced != streams_.end()) {
    close(replaced, cancelled("a newer stream replaces this session"), now);
  }
  return {};
}

// The ids that the Open names by their hash, if this session of the same tenant has them; else
// none.
std::vector<TokenId> Sessions::known_prefix(const SessionName& wanted, const Open& open) {
  std::span<const TokenId> text;
  const auto at = find_session(wanted);
  if (at != streams_.end() && at->second.session() != nullptr) {
    text = at->second.session()->tree().text();
  } else if (const auto* kept = pool_.text_of(wanted)) {
    text = *kept;
  }
  if (static_cast<Position>(text.size()) < open.prefix_length) return {};
  text = text.first(static_cast<std::size_t>(open.prefix_length));
  if (prefix_hash(text) != open.prefix_hash) return {};
  return {text.begin(), text.end()};
}

// A stream that waits alone is compared with no other: then sessions need not be counted.
std::vector<PlaceSeeker> Sessions::place_seekers() const {
  std::vector<PlaceSeeker> seekers;
  for (const StreamId id : unopened_) {
    if (!streams_.at(id).waits()) continue;
    seekers.push_back(streams_.at(id).place_seeker(id));
    seekers.back().served = place_turns_.last(seekers.back().group);
  }
  if (waiting_ < 2) return seekers;
  for (const auto& [id, stream] : streams_) {
    if (stream.session() != nullptr) seekers.push_back(stream.place_seeker(id));
  }
  return seekers;
}

// Places of less urgent sessions keep nobody out: those yield between their verdicts.
bool Sessions::has_place_for(const VerifyStream& waiting) const {
  if (sessions_open_ < options_.max_concurrent_sessions) return true;
  const auto counts = [&](const auto& entry) {
    return entry.second.session() != nullptr && entry.second.rank() <= waiting.rank();
  };
  return std::ranges::count_if(streams_, counts) < options_.max_concurrent_sessions;
}

void Sessions::admit_waiting(TimePoint now) {
  room_may_be_free_ = false;
  if (waiting_ == 0) return;
  Status full = resource_exhausted("all " + std::to_string(options_.max_concurrent_sessions) +
                                   " sessions are taken");
  std::string inner;
  while (waiting_ > 0) {
    const auto next = streams_.find(*next_to_open(place_seekers()));
    if (draining_) {
      close(next, unavailable("this verifier is shutting down; open the session elsewhere"), now);
      continue;
    }
    if (!has_place_for(next->second)) break;
    const Status opened = open_session(next, now);
    const bool is_short = opened.code() == StatusCode::kResourceExhausted;
    if (next->second.waits() && is_short && !pool_.was_too_large()) {
      full = opened;
      inner = pool_.why_short();
      if (!pool_.was_share_short()) break;
      refuse(next, full, inner, now);
      continue;
    }
    flush(next->first, next->second);
    if (!opened.ok()) {
      if (next->second.waits()) ++stats_.sessions_refused;
      close(next, opened, now);
    } else if (next->second.session()->finished()) {
      close(next, {}, now);
    }
  }
  while (waiting_ > options_.max_queued_requests) {
    refuse(streams_.find(*last_to_open(place_seekers())), full, inner, now);
  }
}

// why: for the edge; inner: for the log.
void Sessions::refuse(Streams::iterator at, const Status& why, const std::string& inner,
                      TimePoint now) {
  ++stats_.sessions_refused;
  why_short_ = inner;
  close(at, overloaded(at->first, why.message()), now);
}

// RESOURCE_EXHAUSTED: there is no memory for it, and it waits on.
Status Sessions::open_session(Streams::iterator at, TimePoint now) {
  VerifyStream& stream = at->second;
  OUTRIDER_RETURN_IF_ERROR(stream.lease(target_of(stream), pool_, now));
  const std::vector<EdgeMessage> messages = stream.assembled();
  --waiting_;
  unopened_.erase(at->first);
  const Status opened =
      stream.open(messages.front(), target_of(stream), std::max(options_.prefill_chunk, 1u), now);
  place_turns_.serve(stream.group());
  ++sessions_open_;
  ++stats_.sessions_opened;
  OUTRIDER_RETURN_IF_ERROR(opened);
  for (std::size_t i = 1; i < messages.size() && !stream.session()->finished(); ++i) {
    OUTRIDER_RETURN_IF_ERROR(stream.check_reports(messages[i]));
    OUTRIDER_RETURN_IF_ERROR(stream.receive(messages[i], now));
  }
  return {};
}

Status Sessions::overloaded(StreamId id, const std::string& why) {
  events_.push_back(
      {id, Notice{Notice::Kind::kOverloaded, spread_delay(options_.retry_after, id)}});
  return resource_exhausted(why + "; retry in " + seconds(options_.retry_after));
}

// One that waits for its place counts.
Sessions::Streams::iterator Sessions::find_session(const SessionName& wanted) {
  if (wanted.id.empty() && wanted.key.empty()) return streams_.end();
  return std::find_if(streams_.begin(), streams_.end(), [&](const auto& entry) {
    return (entry.second.session() != nullptr || entry.second.waits()) &&
           names_session(wanted, entry.second.name());
  });
}

void Sessions::disconnect(StreamId stream, TimePoint now) {
  const auto at = streams_.find(stream);
  if (at == streams_.end()) return;
  retire(at->second, now);
  waiting_ -= at->second.waits() ? 1 : 0;
  unopened_.erase(at->first);
  streams_.erase(at);
}

void Sessions::end_stream(StreamId stream, const Status& status, TimePoint now) {
  const auto at = streams_.find(stream);
  if (at != streams_.end()) close(at, status, now);
}

void Sessions::drain() {
  if (std::exchange(draining_, true)) return;
  for (const auto& [id, stream] : streams_) {
    if (stream.session() || stream.waits())
      events_.push_back({id, Notice{Notice::Kind::kReconnectSoon, Duration{0}}});
  }
}

void Sessions::tick(TimePoint now) {
  for (auto at = streams_.begin(); at != streams_.end();) {
    const auto next = std::next(at);
    VerifyStream& stream = at->second;
    if (stream.waits()) {
      if (now - stream.waits()->since >= options_.queue_timeout) {
        refuse(at, resource_exhausted("no place became free in " + seconds(options_.queue_timeout)),
               pool_.why_short(), now);
      }
    } else if (stream.assembly() != nullptr) {
      if (now >= stream.assembly()->deadline(options_.open_timeout)) {
        const std::string limit = seconds(options_.open_timeout);
        close(at, deadline_exceeded("no piece of the prefix came for " + limit), now);
      }
    } else if (const auto progress = stream.progress_while_waiting(now)) {
      events_.push_back({at->first, *progress});
    } else if (stream.silent(options_.idle_timeout, now) && !stream.wants_device(now)) {
      close(at,
            deadline_exceeded("the answer did not come on for " + seconds(options_.idle_timeout) +
                              "; reconnect to go on"),
            now);
    }
    at = next;
  }
  pool_.expire(now);
  texts_.expire(now);
}

std::optional<TimePoint> Sessions::wake_at() const {
  if (waiting_ > 0 && room_may_be_free_) return TimePoint{};
  std::optional<TimePoint> wake = pool_.next_expiry();
  if (const auto at = texts_.next_expiry()) wake = wake ? std::min(*wake, *at) : *at;
  for (const auto& [id, stream] : streams_) {
    const TimePoint at = stream.waits()
                             ? stream.waits()->since + options_.queue_timeout
                             : stream.wake_at(options_.idle_timeout, options_.open_timeout,
                                              options_.ready_at(stream.name().owner));
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
      if (!options_.model_name.empty()) opened->model_name = options_.model_name;
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
  waiting_ -= at->second.waits() ? 1 : 0;
  unopened_.erase(at->first);
  streams_.erase(at);
}

// The session is over: what it did is counted, and its text is left to its tenant.
void Sessions::end_session(const VerifyStream& stream, TimePoint now) {
  if (options_.kv.share_prefixes && uses_lookup(options_.draft_source)) {
    texts_.remember(stream.name().owner.tenant, new_text_of(*stream.session()), now);
  }
  stream.add_session(stats_);
  stream.add_reports(stats_);
  if (!options_.on_session_end) return;
  records_.push_back(stream.record(now));
  if (!options_.joules) records_.back().joules.reset();  // nobody was asked
}

// Only for a stream that is erased next.
void Sessions::retire(VerifyStream& stream, TimePoint now) {
  if (!stream.session()) return;
  end_session(stream, now);
  stream.retire(pool_, now);
  --sessions_open_;
  room_may_be_free_ = true;
}

void Sessions::break_off(Streams::iterator at, const Status& why, TimePoint now) {
  if (why.code() != StatusCode::kResourceExhausted) return close(at, why, now);
  end_without_memory(at, overloaded(at->first, "this verifier is short of memory for this pass"),
                     why.message(), now);
}

// One that is too large would come back for nothing.
void Sessions::starve(StreamId id, const Status& why, TimePoint now) {
  const Status told = pool_.was_too_large() ? why : overloaded(id, why.message());
  end_without_memory(streams_.find(id), told, pool_.why_short(), now);
}

// Its memory goes to the others.
void Sessions::end_without_memory(Streams::iterator at, const Status& told,
                                  const std::string& inner, TimePoint now) {
  end_session(at->second, now);
  at->second.discard(pool_);
  --sessions_open_;
  room_may_be_free_ = true;
  why_short_ = inner;
  close(at, told, now);
}

void Sessions::finished_pass(Streams::iterator at, bool decided, TimePoint now) {
  at->second.touch(now);
  at->second.share(pool_, now);
  const std::optional<Duration> gap = at->second.session()->recorder().last_gap();
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
  stats.texts_kept = pool_.kept_texts();
  stats.kv_bytes = pool_.used_bytes();
  stats.kv_bytes_bound = pool_.bound_bytes();
  stats.lookup_tokens = texts_.tokens();
  for (const auto& [id, stream] : streams_) stream.add_reports(stats);
  return stats;
}

}  // namespace outrider
