// SPDX-License-Identifier: Apache-2.0
#include "common/verify/stream_table.h"

#include <algorithm>
#include <chrono>

#include "common/verify/stream_opener.h"

namespace outrider {
namespace {

std::string seconds(Duration d) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(d).count()) + " s";
}

}  // namespace

StreamTable::StreamTable(Model& model, const SchedulerOptions& options)
    : options_(options),
      target_(make_target(model.info(), options)),
      pool_(model, {.capacity = cache_capacity(target_.limits),
                    .kept = options.kept_caches,
                    .max_bytes = options.kv_cache_bytes,
                    .kept_for = options.kept_for,
                    .tenant_bytes = options.tenant_kv_bytes}) {}

void StreamTable::connect(StreamId stream, std::string session_id, TimePoint now,
                          std::shared_ptr<ExitReportChannel> reports, StreamOwner owner) {
  const auto [at, fresh] = streams_.try_emplace(
      stream, VerifyStream({.id = std::move(session_id), .key = {}, .owner = std::move(owner)},
                           std::move(reports), now));
  OUTRIDER_CHECK(fresh);
  at->second.join(turns_);
  if (too_many_unopened(streams_, at->second.group())) {
    close(at, overloaded(stream, "too many streams wait to open a session"), now);
  }
}

void StreamTable::receive(StreamId id, const EdgeMessage& message, TimePoint now) {
  const auto at = streams_.find(id);
  if (at == streams_.end()) return;
  VerifyStream& stream = at->second;
  Status status = stream.check_reports(message);
  if (status.ok()) {
    if (stream.session() != nullptr) {
      status = stream.receive(message, now);
    } else {
      status = StreamOpener(*this).receive(id, stream, message, now);
    }
  }
  flush(id, stream);
  if (!status.ok()) return close(at, status, now);
  if (stream.assembly() != nullptr) return bound_gathered(stream.group(), now);
  if (stream.session() != nullptr && stream.session()->finished()) close(at, {}, now);
}

// A stream of this group has gathered more of its Open; it may be the one that goes, and its name
// with it.
void StreamTable::bound_gathered(std::string group, TimePoint now) {
  while (const std::optional<StreamId> most = gathered_too_much(streams_, group)) {
    close(streams_.find(*most), overloaded(*most, "too much waits to open a session"), now);
  }
}

Status StreamTable::overloaded(StreamId id, const std::string& why) {
  say(id, Notice{Notice::Kind::kOverloaded, options_.retry_after});
  return resource_exhausted(why + "; retry in " + seconds(options_.retry_after));
}

// What there is and how much of it is ours to know.
Status StreamTable::short_of_memory(StreamId id, const std::string& told,
                                    const std::string& inner) {
  why_short_ = inner;
  return overloaded(id, told);
}

StreamTable::Streams::iterator StreamTable::find_session(const SessionName& wanted) {
  return std::find_if(streams_.begin(), streams_.end(), [&](const auto& entry) {
    return entry.second.session() != nullptr && names_session(wanted, entry.second.name());
  });
}

void StreamTable::disconnect(StreamId stream, TimePoint now) {
  const auto at = streams_.find(stream);
  if (at == streams_.end()) return;
  retire(at->second, now);
  streams_.erase(at);
}

void StreamTable::end_stream(StreamId stream, const Status& status, TimePoint now) {
  const auto at = streams_.find(stream);
  if (at != streams_.end()) close(at, status, now);
}

void StreamTable::drain() {
  if (std::exchange(draining_, true)) return;
  for (const auto& [id, stream] : streams_) {
    if (stream.session())
      events_.push_back({id, Notice{Notice::Kind::kReconnectSoon, Duration{0}}});
  }
}

void StreamTable::tick(TimePoint now) {
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

std::optional<TimePoint> StreamTable::wake_at() const {
  std::optional<TimePoint> wake = pool_.next_expiry();
  for (const auto& [id, stream] : streams_) {
    const TimePoint at =
        stream.wake_at(options_.idle_timeout, options_.open_timeout, ready_at(options_, stream));
    wake = wake ? std::min(*wake, at) : at;
  }
  return wake;
}

void StreamTable::flush(StreamId id, VerifyStream& stream) {
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

// Ends the stream; its session, if it has one, is over with it.
void StreamTable::close(Streams::iterator at, const Status& status, TimePoint now) {
  retire(at->second, now);
  events_.push_back({at->first, StreamEnded{status, std::exchange(why_short_, {})}});
  streams_.erase(at);
}

void StreamTable::count_end(const VerifyStream& stream, TimePoint now) {
  count_session(stats_, *stream.session());
  count_reports(stats_, stream.report_counts());
  if (!options_.on_session_end) return;
  records_.push_back(stream.record(now));
  if (!options_.joules) records_.back().joules.reset();  // nobody was asked
}

// Only for a stream that is erased next.
void StreamTable::retire(VerifyStream& stream, TimePoint now) {
  if (!stream.session()) return;
  count_end(stream, now);
  stream.retire(pool_, now);
  --sessions_open_;
}

void StreamTable::break_off(Streams::iterator at, const Status& why, TimePoint now) {
  if (why.code() != StatusCode::kResourceExhausted) return close(at, why, now);
  starve(at, "this verifier is short of memory for this pass", why.message(), now);
}

// Its memory goes to the others.
void StreamTable::starve(Streams::iterator at, const std::string& told, const std::string& inner,
                         TimePoint now) {
  count_end(at->second, now);
  at->second.discard(pool_);
  --sessions_open_;
  close(at, short_of_memory(at->first, told, inner), now);
}

StreamTable::Streams::iterator StreamTable::next_turn(TimePoint now) {
  while (const std::optional<StreamId> turn = next_in_turn(turn_seekers(streams_, options_, now))) {
    const auto next = streams_.find(*turn);
    const Status room = next->second.reserve(pool_);
    if (room.ok()) {
      next->second.serve(++turns_);
      return next;
    }
    starve(next, room.message(), pool_.why_short(), now);
  }
  return streams_.end();
}

void StreamTable::finished_pass(Streams::iterator at, bool decided, TimePoint now) {
  at->second.touch(now);
  const std::optional<Duration> gap = at->second.session()->book().last_gap();
  if (decided && gap && options_.on_verdict_gap) options_.on_verdict_gap(*gap);
  flush(at->first, at->second);
  if (at->second.session()->finished()) close(at, {}, now);
}

const VerifySession* StreamTable::session(StreamId stream) const {
  const auto at = streams_.find(stream);
  return at == streams_.end() ? nullptr : at->second.session();
}

SchedulerStats StreamTable::stats() const {
  SchedulerStats stats = stats_;
  stats.streams_open = streams_.size();
  stats.sessions_open = sessions_open_;
  stats.caches_kept = pool_.size();
  stats.kv_bytes = pool_.used_bytes();
  for (const auto& [id, stream] : streams_) count_reports(stats, stream.report_counts());
  return stats;
}

}  // namespace outrider
