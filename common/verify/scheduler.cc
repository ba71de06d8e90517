// SPDX-License-Identifier: Apache-2.0
#include "common/verify/scheduler.h"

#include <algorithm>
#include <chrono>

#include "common/verify/open_check.h"

namespace outrider {
namespace {

// Streams that have not opened a session yet are cheap, but not free.
constexpr std::size_t kUnopenedStreams = 64;

std::string seconds(Duration d) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(d).count()) + " s";
}

}  // namespace

Scheduler::Scheduler(Model& model, const SchedulerOptions& options)
    : options_(options),
      target_(make_target(model.info(), options)),
      pool_(model, cache_capacity(target_.limits), options.kept_caches),
      runner_(model) {
  if (options.exits != nullptr) probe_.emplace(*options.exits, options.exit_score);
}

void Scheduler::connect(StreamId stream, std::string session_id, TimePoint now,
                        std::shared_ptr<ExitReportChannel> reports) {
  const auto [at, fresh] =
      streams_.try_emplace(stream, VerifyStream(std::move(session_id), std::move(reports), now));
  OUTRIDER_CHECK(fresh);
  if (streams_.size() > sessions_open_ + kUnopenedStreams) {
    close(at, resource_exhausted("too many streams wait to open a session; retry in " +
                                 seconds(options_.retry_after)));
  }
}

void Scheduler::receive(StreamId id, const EdgeMessage& message, TimePoint now) {
  OUTRIDER_CHECK(!turn_);
  const auto at = streams_.find(id);
  if (at == streams_.end()) return;
  VerifyStream& stream = at->second;
  stream.touch(now);
  Status status = stream.check_reports(message);
  if (status.ok()) {
    status = stream.session() ? stream.receive(message, now) : open(id, stream, message, now);
  }
  flush(id, stream);
  if (!status.ok()) {
    close(at, status);
  } else if (stream.session()->finished()) {
    close(at, {});
  }
}

Status Scheduler::open(StreamId id, VerifyStream& stream, const EdgeMessage& message,
                       TimePoint now) {
  const auto* open = std::get_if<Open>(&message.body);
  if (open == nullptr) {
    return failed_precondition("the first message of a stream must be Open");
  }
  OUTRIDER_RETURN_IF_ERROR(check_open(*open, target_));
  OUTRIDER_RETURN_IF_ERROR(admit(id, open->replaced_session));
  Status status = stream.open(message, target_, pool_, std::max(options_.prefill_chunk, 1u), now);
  if (stream.session()) {
    ++sessions_open_;
    ++stats_.sessions_opened;
  }
  return status;
}

Status Scheduler::admit(StreamId id, const std::string& replaced_session) {
  if (draining_) {
    ++stats_.sessions_refused;
    return unavailable("this verifier is shutting down; open the session elsewhere or later");
  }
  end_replaced(replaced_session);
  if (sessions_open_ < options_.max_concurrent_sessions) return {};
  ++stats_.sessions_refused;
  events_.push_back({id, Notice{Notice::Kind::kOverloaded, options_.retry_after}});
  return resource_exhausted("all " + std::to_string(options_.max_concurrent_sessions) +
                            " sessions are taken; retry in " + seconds(options_.retry_after));
}

void Scheduler::end_replaced(const std::string& session_id) {
  const auto at = std::find_if(streams_.begin(), streams_.end(), [&](const auto& entry) {
    return entry.second.session() && entry.second.session_id() == session_id;
  });
  if (at != streams_.end()) close(at, cancelled("a newer stream replaces this session"));
}

void Scheduler::disconnect(StreamId stream) {
  OUTRIDER_CHECK(!turn_);
  const auto at = streams_.find(stream);
  if (at == streams_.end()) return;
  retire(at->second);
  streams_.erase(at);
}

void Scheduler::end_stream(StreamId stream, const Status& status) {
  OUTRIDER_CHECK(!turn_);
  const auto at = streams_.find(stream);
  if (at != streams_.end()) close(at, status);
}

void Scheduler::drain() {
  if (std::exchange(draining_, true)) return;
  for (const auto& [id, stream] : streams_) {
    if (stream.session())
      events_.push_back({id, Notice{Notice::Kind::kReconnectSoon, Duration{0}}});
  }
}

void Scheduler::tick(TimePoint now) {
  OUTRIDER_CHECK(!turn_);
  for (auto at = streams_.begin(); at != streams_.end();) {
    const auto next = std::next(at);
    const VerifyStream& stream = at->second;
    if (stream.silent(options_.idle_timeout, now) && !stream.wants_device(now)) {
      close(at, deadline_exceeded("nothing was heard from the edge for " +
                                  seconds(options_.idle_timeout) + "; reconnect to go on"));
    }
    at = next;
  }
}

std::optional<TimePoint> Scheduler::wake_at() const {
  std::optional<TimePoint> wake;
  for (const auto& [id, stream] : streams_) {
    const TimePoint at = stream.wake_at(options_.idle_timeout);
    wake = wake ? std::min(*wake, at) : at;
  }
  return wake;
}

bool Scheduler::start(TimePoint now) {
  OUTRIDER_CHECK(!turn_);
  const auto wants = [&](const Streams::value_type& entry) {
    return entry.second.wants_device(now);
  };
  // From the one after the last served to the end, then from the beginning.
  const auto after = streams_.upper_bound(last_served_);
  auto next = std::find_if(after, streams_.end(), wants);
  if (next == streams_.end()) {
    next = std::find_if(streams_.begin(), after, wants);
    if (next == after) return false;
  }
  last_served_ = next->first;
  turn_ = Turn{next->first, next->second.start(now), now, Status()};
  flush(next->first, next->second);
  return true;
}

void Scheduler::compute() {
  OUTRIDER_CHECK(turn_.has_value());
  turn_->status =
      streams_.at(turn_->stream).compute(turn_->plan, runner_, probe_ ? &*probe_ : nullptr);
}

void Scheduler::finish(TimePoint now) {
  OUTRIDER_CHECK(turn_.has_value());
  const Turn turn = *std::exchange(turn_, std::nullopt);
  const auto at = streams_.find(turn.stream);
  VerifyStream& stream = at->second;
  if (!turn.status.ok()) return close(at, turn.status.with_context("pass"));
  stream.touch(now);
  stream.finish(runner_, now - turn.started, now);
  stats_.rows += turn.plan.rows();
  stats_.passes += turn.plan.decides ? 1 : 0;
  stats_.compute += now - turn.started;
  flush(turn.stream, stream);
  if (stream.session()->finished()) close(at, {});
}

void Scheduler::flush(StreamId id, VerifyStream& stream) {
  for (ServerMessage& message : stream.take_messages()) {
    events_.push_back({id, std::move(message)});
  }
}

// Ends the stream; its session, if it has one, is over with it.
void Scheduler::close(Streams::iterator at, const Status& status) {
  retire(at->second);
  events_.push_back({at->first, StreamEnded{status}});
  streams_.erase(at);
}

// Only for a stream that is erased next.
void Scheduler::retire(VerifyStream& stream) {
  if (!stream.session()) return;
  count_session(stats_, *stream.session());
  count_reports(stats_, stream.report_counts());
  stream.retire(pool_);
  --sessions_open_;
}

const VerifySession* Scheduler::session(StreamId stream) const {
  const auto at = streams_.find(stream);
  return at == streams_.end() ? nullptr : at->second.session();
}

SchedulerStats Scheduler::stats() const {
  SchedulerStats stats = stats_;
  stats.streams_open = streams_.size();
  stats.sessions_open = sessions_open_;
  stats.caches_kept = pool_.size();
  for (const auto& [id, stream] : streams_) count_reports(stats, stream.report_counts());
  return stats;
}

}  // namespace outrider
