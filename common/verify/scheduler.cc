// SPDX-License-Identifier: Apache-2.0
#include "common/verify/scheduler.h"

#include <algorithm>
#include <chrono>
#include <limits>

namespace outrider {
namespace {

// Streams that have not opened a session yet are cheap, but not free.
constexpr std::size_t kUnopenedStreams = 64;

std::vector<std::int32_t> exit_layers(const SchedulerOptions& options) {
  if (options.exits == nullptr) return {};
  const auto layers = options.exits->layers();
  return {layers.begin(), layers.end()};
}

Target make_target(const ModelInfo& model, const SchedulerOptions& options) {
  const Position max_positions = options.max_positions > 0
                                     ? std::min(options.max_positions, model.max_positions)
                                     : model.max_positions;
  return {.model = model,
          .tokenizer_hash = options.tokenizer_hash,
          .limits = {.max_nodes = std::max(options.max_nodes, Limits{}.max_nodes),
                     .max_rows = std::max(options.max_rows, 1u),
                     .run_ahead = std::max(options.run_ahead, 1u),
                     .max_message_bytes = options.max_message_bytes,
                     .max_positions = max_positions,
                     .vocab_size = model.vocab_size},
          .exits = exit_layers(options)};
}

// Every cache holds the whole context, so that any session can take over any other's.
std::int32_t cache_capacity(const Limits& limits) {
  const Position slots = limits.max_positions + limits.max_rows;
  return static_cast<std::int32_t>(
      std::min<Position>(slots, std::numeric_limits<std::int32_t>::max()));
}

void count_reports(SchedulerStats& stats, const ReportCounts& counts) {
  stats.exits_computed += counts.computed;
  stats.reports_sent += counts.sent;
  stats.reports_deduplicated += counts.deduplicated;
  stats.reports_dropped += counts.dropped;
}

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

void Scheduler::connect(StreamId stream, std::string session_id, TimePoint now) {
  const auto [at, fresh] = streams_.try_emplace(stream);
  OUTRIDER_CHECK(fresh);
  at->second.session_id = std::move(session_id);
  at->second.last_active = now;
  if (streams_.size() > sessions_open_ + kUnopenedStreams) {
    close(at, resource_exhausted("too many streams wait to open a session; retry in " +
                                 seconds(options_.retry_after)));
  }
}

void Scheduler::receive(StreamId id, const EdgeMessage& message, TimePoint now) {
  OUTRIDER_CHECK(!turn_);
  const auto at = streams_.find(id);
  if (at == streams_.end()) return;
  Stream& stream = at->second;
  stream.last_active = now;
  Status status = acknowledge_reports(stream, message, now);
  if (status.ok()) {
    status =
        stream.session ? stream.session->on_message(message, now) : open(id, stream, message, now);
  }
  if (stream.session) flush(id, stream);
  if (!status.ok()) {
    close(at, status);
  } else if (stream.session->finished()) {
    close(at, {});
  }
}

Status Scheduler::acknowledge_reports(const Stream& stream, const EdgeMessage& message,
                                      TimePoint now) {
  const std::uint32_t seq = message.acked_reports;
  if (stream.lane) {
    OUTRIDER_RETURN_IF_ERROR(stream.lane->acknowledge(seq, now));
    stream.lane->settle(message.acked_position);
    return {};
  }
  if (seq == 0) return {};
  return failed_precondition("acked_reports: " + std::to_string(seq) +
                             "; this verifier has sent no exit report");
}

Status Scheduler::open(StreamId id, Stream& stream, const EdgeMessage& message, TimePoint now) {
  const auto* open = std::get_if<Open>(&message.body);
  if (open == nullptr) {
    return failed_precondition("the first message of a stream must be Open");
  }
  OUTRIDER_RETURN_IF_ERROR(check_open(*open, target_));
  OUTRIDER_RETURN_IF_ERROR(admit(id, open->replaced_session));
  OUTRIDER_ASSIGN_OR_RETURN(KvPool::Taken taken, pool_.take(open->replaced_session, open->prefix));
  stream.cache = std::move(taken.cache);
  stream.session = std::make_unique<VerifySession>(
      *open, target_,
      VerifySession::Setup{.session_id = stream.session_id,
                           .cached = taken.cached,
                           .prefill_chunk = std::max(options_.prefill_chunk, 1u)},
      now);
  if (probe_) stream.lane = std::make_shared<ExitReportChannel>(options_.report_queue);
  ++sessions_open_;
  ++stats_.sessions_opened;
  return stream.session->on_message({message.acked_position, message.acked_reports, AckOnly{}},
                                    now);
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
    return entry.second.session && entry.second.session_id == session_id;
  });
  if (at != streams_.end()) close(at, cancelled("a newer stream replaces this session"));
}

void Scheduler::disconnect(StreamId stream) {
  OUTRIDER_CHECK(!turn_);
  const auto at = streams_.find(stream);
  if (at == streams_.end()) return;
  if (at->second.session) {
    ++stats_.finished_error;
    retire(at->second);
  }
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
    if (stream.session) events_.push_back({id, Notice{Notice::Kind::kReconnectSoon, Duration{0}}});
  }
}

void Scheduler::tick(TimePoint now) {
  OUTRIDER_CHECK(!turn_);
  for (auto at = streams_.begin(); at != streams_.end();) {
    const auto next = std::next(at);
    const Stream& stream = at->second;
    const bool silent = now - stream.last_active >= options_.idle_timeout;
    if (silent && !wants_device(stream, now)) {
      close(at, deadline_exceeded("nothing was heard from the edge for " +
                                  seconds(options_.idle_timeout) + "; reconnect to go on"));
    }
    at = next;
  }
}

std::optional<TimePoint> Scheduler::wake_at() const {
  std::optional<TimePoint> wake;
  for (const auto& [id, stream] : streams_) {
    TimePoint at = stream.last_active + options_.idle_timeout;
    if (stream.session) at = std::min(at, stream.session->runnable_at().value_or(at));
    wake = wake ? std::min(*wake, at) : at;
  }
  return wake;
}

bool Scheduler::wants_device(const Stream& stream, TimePoint now) {
  const auto at = stream.session ? stream.session->runnable_at() : std::nullopt;
  return at && *at <= now;
}

bool Scheduler::start(TimePoint now) {
  OUTRIDER_CHECK(!turn_);
  const auto wants = [&](const Streams::value_type& entry) {
    return wants_device(entry.second, now);
  };
  // From the one after the last served to the end, then from the beginning.
  const auto after = streams_.upper_bound(last_served_);
  auto next = std::find_if(after, streams_.end(), wants);
  if (next == streams_.end()) {
    next = std::find_if(streams_.begin(), after, wants);
    if (next == after) return false;
  }
  last_served_ = next->first;
  turn_ = Turn{next->first, next->second.session->start(now), now, Status()};
  flush(next->first, next->second);
  return true;
}

void Scheduler::compute(const OnReport& on_report) {
  OUTRIDER_CHECK(turn_.has_value());
  const Stream& stream = streams_.at(turn_->stream);
  if (!probe_ || !turn_->plan.exits) {
    turn_->status = runner_.compute(turn_->plan, *stream.cache);
    return;
  }
  ExitReportChannel& lane = *stream.lane;
  lane.begin_pass(turn_->plan.pass);
  probe_->begin(*stream.session, turn_->plan, target_.limits.vocab_size,
                [&](const ExitGuess& guess) {
                  lane.offer(guess);
                  if (on_report) on_report(turn_->stream);
                });
  turn_->status = runner_.compute(turn_->plan, *stream.cache, &*probe_);
}

std::shared_ptr<ExitReportChannel> Scheduler::lane(StreamId stream) const {
  const auto at = streams_.find(stream);
  return at == streams_.end() ? nullptr : at->second.lane;
}

void Scheduler::finish(TimePoint now) {
  OUTRIDER_CHECK(turn_.has_value());
  const Turn turn = *std::exchange(turn_, std::nullopt);
  const auto at = streams_.find(turn.stream);
  Stream& stream = at->second;
  VerifySession& session = *stream.session;
  stream.last_active = now;
  if (!turn.status.ok()) return close(at, turn.status.with_context("pass"));
  const Open& open = session.opened();
  const std::int32_t leaf = session.finish(
      [&](std::size_t row, Position position) {
        return choose(runner_.logits(row), open.sampling, open.seed, position);
      },
      now - turn.started, now);
  if (stream.lane) stream.lane->end_pass(session.tree().end());
  runner_.keep(leaf, *stream.cache);
  stats_.rows += turn.plan.rows();
  stats_.passes += turn.plan.decides ? 1 : 0;
  stats_.compute += now - turn.started;
  flush(turn.stream, stream);
  if (session.finished()) close(at, {});
}

void Scheduler::flush(StreamId id, Stream& stream) {
  for (ServerMessage& message : stream.session->take_messages()) {
    events_.push_back({id, std::move(message)});
  }
}

// Ends the stream; its session, if it has one, is over with it.
void Scheduler::close(Streams::iterator at, const Status& status) {
  Stream& stream = at->second;
  if (stream.session) {
    if (stream.session->finished()) {
      count_finished(*stream.session);
    } else {
      ++stats_.finished_error;
    }
    retire(stream);
  }
  events_.push_back({at->first, StreamEnded{status}});
  streams_.erase(at);
}

void Scheduler::retire(Stream& stream) {
  const Usage& usage = stream.session->usage();
  stats_.prompt_tokens += usage.prompt_tokens;
  stats_.cached_tokens += usage.cached_tokens;
  stats_.completion_tokens += usage.completion_tokens;
  stats_.dead_on_arrival += usage.dead_on_arrival;
  if (stream.lane) count_reports(stats_, std::exchange(stream.lane, nullptr)->counts());
  pool_.keep(stream.session_id, std::move(stream.cache), stream.session->cached_text());
  stream.session.reset();
  --sessions_open_;
}

void Scheduler::count_finished(const VerifySession& session) {
  const FinishReason reason = session.usage().reason;
  stats_.finished_stop += reason == FinishReason::kStop ? 1 : 0;
  stats_.finished_length += reason == FinishReason::kLength ? 1 : 0;
  stats_.finished_cancelled += reason == FinishReason::kCancelled ? 1 : 0;
}

const VerifySession* Scheduler::session(StreamId stream) const {
  const auto at = streams_.find(stream);
  return at == streams_.end() ? nullptr : at->second.session.get();
}

SchedulerStats Scheduler::stats() const {
  SchedulerStats stats = stats_;
  stats.streams_open = streams_.size();
  stats.sessions_open = sessions_open_;
  stats.caches_kept = pool_.size();
  for (const auto& [id, stream] : streams_) {
    if (stream.lane) count_reports(stats, stream.lane->counts());
  }
  return stats;
}

}  // namespace outrider
