// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/session/verify_stream.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <limits>
#include <utility>
#include <variant>

namespace outrider {
namespace {

// Memory is promised for so much of an answer, so that a session that was admitted does not soon
// take it from others.
constexpr Position kReservedAnswer = 64;
constexpr Duration kBetweenProgress = std::chrono::seconds(1);
// Shorter chunks of a prompt report completion only.
constexpr Position kLongPass = 256;
constexpr Position kMaxSlots = std::numeric_limits<std::int32_t>::max() / 2;

// Only the magnitude of the exact figures is left.
void coarsen(Verdict& verdict) {
  verdict.batch_rows = verdict.batch_rows > 0 ? std::bit_ceil(verdict.batch_rows) : 0;
  PassTimings& timings = verdict.timings;
  const Duration queued = std::exchange(timings.queued, Duration{0});
  timings.load = queued * 10 < timings.computed  ? Load::kFree
                 : queued < timings.computed     ? Load::kSome
                 : queued < timings.computed * 4 ? Load::kBusy
                                                 : Load::kFull;
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

}  // namespace

Status VerifyStream::lease(const Target& target, KvPool& pool, TimePoint now) {
  const Open& open = assembly_->open();
  const auto length = static_cast<Position>(open.prefix.size());
  const Position first_part =
      length + std::min(open.end_position - length, kReservedAnswer) + target.limits.max_rows;
  std::span<const TokenId> reusable = open.prefix;
  // Keys and values that are kept have no logits: a prompt that is scored is computed anew.
  if (open.prompt_logprobs) reusable = reusable.first(1);
  OUTRIDER_ASSIGN_OR_RETURN(
      lease_, pool.take({.id = open.replaced_session,
                         .key = open.session_key,
                         .owner = name_.owner,
                         .level = name_.level},
                        reusable, static_cast<std::int32_t>(std::min(first_part, kMaxSlots)), now));
  return {};
}

Status VerifyStream::open(const EdgeMessage& message, const Target& target,
                          std::uint32_t prefill_chunk, TimePoint now) {
  const Open& open = std::get<Open>(message.body);
  session_ = std::make_unique<VerifySession>(
      open, target,
      VerifySession::Setup{
          .session_id = name_.id, .cached = lease_.cached, .prefill_chunk = prefill_chunk},
      now);
  choice_ = {open.sampling, open.seed};
  return session_->on_message({message.acked_position, message.acked_reports, AckOnly{}}, now);
}

std::vector<EdgeMessage> VerifyStream::assembled() {
  std::vector<EdgeMessage> messages = assembly_->release();
  std::get<Open>(messages.front().body).prefix_hash.clear();
  assembly_.reset();
  waits_.reset();
  return messages;
}

Status VerifyStream::receive(const EdgeMessage& message, TimePoint now) {
  const std::uint64_t before = session_->progress();
  Status status = session_->on_message(message, now);
  if (session_->progress() != before) touch(now);
  return status;
}

Status VerifyStream::reserve(KvPool& pool, const PassBounds& bounds, TimePoint now) {
  if (!holds_memory()) {
    const std::span<const TokenId> text = session_->tree().text();
    const auto rows = static_cast<Position>(text.size()) + Position{session_->limits().max_rows};
    OUTRIDER_ASSIGN_OR_RETURN(lease_,
                              pool.take(name_, session_->reusable_text(),
                                        static_cast<std::int32_t>(std::min(rows, kMaxSlots)), now));
    session_->keep_cached(lease_.cached);
  } else if (session_->is_prefilling()) {
    session_->keep_cached(pool.extend(lease_, session_->reusable_text(), now));
  }
  const std::size_t rows = session_->rows_at_most(bounds);
  const std::size_t nodes = std::min(rows, session_->tree().size());
  return pool.reserve(lease_, static_cast<std::int32_t>(rows), static_cast<std::int32_t>(nodes));
}

bool VerifyStream::will_be_read_by(const VerifyStream& other) const {
  if (lease_.root != other.lease_.root || session_->is_scoring()) return false;
  const auto mine = session_->tree().text(), its = other.session_->tree().text();
  const auto alike = static_cast<std::size_t>(
      std::mismatch(mine.begin(), mine.end(), its.begin(), its.end()).first - mine.begin());
  const std::size_t next_page = session_->cached_text().size() / KvPages::kRows + 1;
  return alike >= next_page * KvPages::kRows && other.session_->cached_text().size() < alike;
}

void VerifyStream::give_up_memory(KvPool& pool, TimePoint now) {
  pool.stow(std::exchange(lease_, {}), session_->cached_text(), now);
  session_->keep_cached(0);
  has_had_verdict_ = false;
  told_progress_ = now;
}

std::optional<Progress> VerifyStream::progress_while_waiting(TimePoint now) {
  if (session_ == nullptr || holds_memory() || now - told_progress_ < kBetweenProgress) {
    return std::nullopt;
  }
  told_progress_ = now;
  return Progress{.done = 0, .total = session_->tree().end()};
}

Status VerifyStream::check_reports(const EdgeMessage& message) const {
  if (hooks_.reports) return hooks_.reports->status();
  if (message.acked_reports == 0) return {};
  return failed_precondition("acked_reports: " + std::to_string(message.acked_reports) +
                             "; this verifier has sent no exit report");
}

Rider VerifyStream::start(StreamId id, TimePoint now, const PassBounds& bounds) {
  return {.stream = id,
          .plan = session_->start(now, bounds),
          .cache = lease_.cache.get(),
          .abandoned = hooks_.abandoned.get(),
          .choice = session_->needs_logits() ? nullptr : &choice_,
          .digests = session_->opened().wants_digests};
}

void VerifyStream::watch(Rider& rider, ExitProbe* probe, BranchPruner* pruner) {
  const PassPlan& plan = rider.plan;
  if (probe != nullptr && hooks_.reports && plan.exits) {
    hooks_.reports->begin_pass(plan.pass);
    probe->watch(*session_, plan, rider.first_logits,
                 [this](const ExitGuess& guess) { hooks_.reports->offer(guess); });
  }
  // An exit's scores are not adjusted, so they would end branches that the settings prefer.
  if (pruner != nullptr && !session_->adjuster().adjusts()) {
    pruner->watch(session_->opened(), name_.owner.tenant, plan, rider.first_logits);
  }
  const auto tokens = static_cast<Position>(plan.tokens.size());
  if (hooks_.on_progress && tokens > kLongPass) {
    rider.on_layer_done = [this, tokens, position = plan.position, decides = plan.decides](
                              std::int32_t done, std::int32_t layers) {
      if (done == layers && !decides) return;  // the session says that a part is done
      hooks_.on_progress(
          {.done = position + tokens * done / layers, .total = session_->tree().end()});
    };
  }
}

Status VerifyStream::finish_rows(Rider& rider, PassRunner& runner) {
  for (std::size_t node = 0; node < rider.plan.nodes.size(); ++node) {
    const auto index = static_cast<std::int32_t>(node);
    if (runner.has_logits(rider, row_after(index))) continue;
    rider.plan.nodes[node].ended = true;
    session_->end_node(index);
  }
  walk_.clear();
  if (!runner.demands() || !rider.plan.decides) return {};
  return walk_.run_on_demand(rider, *session_, runner);
}

void VerifyStream::score(const Rider& rider, const PassRunner& runner) {
  if (rider.plan.scores) walk_.score(rider, *session_, runner);
}

Status VerifyStream::choose(const Rider& rider, const PassRunner& runner) {
  if (!rider.plan.decides || walk_.is_done()) return {};
  return walk_.run(rider, *session_, runner);
}

void VerifyStream::show_choices(const Rider& rider, BranchPruner& pruner) const {
  if (!rider.plan.decides) return;
  pruner.learn(rider.plan, rider.first_logits,
               [this](std::size_t row) { return walk_.chosen(row); });
}

void VerifyStream::finish(const Rider& rider, PassRunner& runner, const RiderTimes& times,
                          TimePoint now) {
  const auto decided = static_cast<std::size_t>(session_->tree().end());
  const std::int32_t leaf =
      session_->finish([this](std::size_t row, Position) { return *walk_.chosen(row); }, times, now,
                       walk_.take_readings());
  has_had_verdict_ = has_had_verdict_ || rider.plan.decides;
  const MirroredTree& tree = session_->tree();
  if (hooks_.reports) hooks_.reports->end_pass(tree.end(), tree.text().subspan(decided));
  runner.keep(rider, leaf);
}

void VerifyStream::retire(KvPool& pool, TimePoint now) {
  pool.keep(name_, std::exchange(lease_, {}), session_->tree().text(), now);
  session_.reset();
}

void VerifyStream::discard(KvPool& pool) {
  if (lease_.cache != nullptr) pool.release(std::exchange(lease_, {}));
  session_.reset();
}

SessionRecord VerifyStream::record(TimePoint now) const {
  SessionRecord record = session_->recorder().record(session_->usage(), now);
  if (!session_->finished()) record.reason = FinishReason::kError;
  record.session_id = name_.id;
  record.tenant = name_.owner.tenant;
  record.request_id = name_.owner.request_id;
  record.traffic = name_.owner.traffic;
  record.joules = joules_;
  return record;
}

void VerifyStream::add_session(SchedulerStats& stats) const {
  const Usage& usage = session_->usage();
  ++finished_by(stats, session_->finished() ? usage.reason : FinishReason::kError);
  stats.prompt_tokens += usage.prompt_tokens;
  stats.cached_tokens += usage.cached_tokens;
  stats.completion_tokens += usage.completion_tokens;
  stats.dead_on_arrival += usage.dead_on_arrival;
}

void VerifyStream::add_reports(SchedulerStats& stats) const {
  if (!hooks_.reports) return;
  const ReportCounts counts = hooks_.reports->counts();
  stats.exits_computed += counts.computed;
  stats.reports_sent += counts.sent;
  stats.reports_deduplicated += counts.deduplicated;
  stats.reports_dropped += counts.dropped;
}

Duration VerifyStream::announce_pass_limit(Duration limit) {
  // Within a quarter it is as good as told.
  if (limit <= told_limit_ + told_limit_ / 4 && limit >= told_limit_ - told_limit_ / 4) {
    return Duration{0};
  }
  return told_limit_ = limit;
}

std::vector<ServerMessage> VerifyStream::take_messages() {
  if (!session_) return {};
  std::vector<ServerMessage> messages = session_->take_messages();
  for (ServerMessage& message : messages) {
    auto* const verdict = std::get_if<Verdict>(&message);
    if (verdict != nullptr && name_.owner.coarse_times) coarsen(*verdict);
  }
  return messages;
}

bool VerifyStream::wants_device(TimePoint now) const {
  const auto at = session_ ? session_->runnable_at() : std::nullopt;
  return at && *at <= now;
}

TimePoint VerifyStream::wake_at(Duration idle_timeout, Duration open_timeout,
                                TimePoint ready_at) const {
  if (assembly_) return assembly_->deadline(open_timeout);
  const TimePoint idle = last_active_ + idle_timeout;
  const std::optional<TimePoint> wanted = session_ ? session_->runnable_at() : std::nullopt;
  // A stream that waits for the device is not silent, however long that takes.
  if (wanted && (*wanted < idle || *wanted <= ready_at)) return std::max(*wanted, ready_at);
  return idle;
}

}  // namespace outrider
