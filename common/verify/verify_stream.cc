// SPDX-License-Identifier: Apache-2.0
#include "common/verify/verify_stream.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "common/sampling/sampling.h"

namespace outrider {

Status VerifyStream::open(const EdgeMessage& message, const Target& target, KvPool& pool,
                          std::uint32_t prefill_chunk, TimePoint now) {
  const Open& open = std::get<Open>(message.body);
  OUTRIDER_ASSIGN_OR_RETURN(KvPool::Taken taken, pool.take(open.replaced_session, open.prefix));
  cache_ = std::move(taken.cache);
  session_ = std::make_unique<VerifySession>(
      open, target,
      VerifySession::Setup{
          .session_id = session_id_, .cached = taken.cached, .prefill_chunk = prefill_chunk},
      now);
  return session_->on_message({message.acked_position, message.acked_reports, AckOnly{}}, now);
}

Status VerifyStream::receive(const EdgeMessage& message, TimePoint now) {
  return session_->on_message(message, now);
}

Status VerifyStream::check_reports(const EdgeMessage& message) const {
  if (reports_) return reports_->status();
  if (message.acked_reports == 0) return {};
  return failed_precondition("acked_reports: " + std::to_string(message.acked_reports) +
                             "; this verifier has sent no exit report");
}

Status VerifyStream::compute(const PassPlan& plan, PassRunner& runner, ExitProbe* probe) {
  if (probe == nullptr || !reports_ || !plan.exits) return runner.compute(plan, *cache_);
  reports_->begin_pass(plan.pass);
  probe->begin(*session_, plan, session_->limits().vocab_size,
               [this](const ExitGuess& guess) { reports_->offer(guess); });
  return runner.compute(plan, *cache_, probe);
}

void VerifyStream::finish(PassRunner& runner, Duration computed, TimePoint now) {
  const Open& open = session_->opened();
  const std::int32_t leaf = session_->finish(
      [&](std::size_t row, Position position) {
        return choose(runner.logits(row), open.sampling, open.seed, position);
      },
      computed, now);
  if (reports_) reports_->end_pass(session_->tree().end());
  runner.keep(leaf, *cache_);
}

void VerifyStream::retire(KvPool& pool) {
  pool.keep(session_id_, std::move(cache_), session_->cached_text());
  session_.reset();
}

std::vector<ServerMessage> VerifyStream::take_messages() {
  return session_ ? session_->take_messages() : std::vector<ServerMessage>{};
}

bool VerifyStream::wants_device(TimePoint now) const {
  const auto at = session_ ? session_->runnable_at() : std::nullopt;
  return at && *at <= now;
}

TimePoint VerifyStream::wake_at(Duration idle_timeout) const {
  const TimePoint idle = last_active_ + idle_timeout;
  return session_ ? std::min(idle, session_->runnable_at().value_or(idle)) : idle;
}

}  // namespace outrider
