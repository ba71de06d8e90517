// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/checked_adversary.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

namespace outrider {

CheckedAdversary::CheckedAdversary(Simulation& simulation, SimLink& link, const ToyModel& target,
                                   const ToyExits* exits, const Plan& plan)
    : simulation_(simulation),
      random_(simulation.random()),
      link_(link),
      exits_(exits),
      plan_(plan),
      max_positions_(target.info().max_positions),
      adversary_(
          {.open = plan.open,
           .expected = target.decode(plan.open.prefix, plan.open.end_position, plan.open.sampling,
                                     plan.open.seed, plan.open.stop_ids, plan.open.settings),
           .vocab_size = target.info().vocab_size,
           .guess_right = plan.guess_right},
          simulation.random(), [&link](EdgeMessage message) { link.send(std::move(message)); }),
      text_(plan.open.prefix) {
  link_.on_connected = [this](StreamId stream) { references_[stream] = reference_; };
  adversary_.on_grow = [this](std::span<const TokenId> text, const Grow& grow) {
    reference_->sent(text, grow);
  };
}

void CheckedAdversary::begin() {
  open_stream();
  act_later();
}

void CheckedAdversary::fail(const std::string& what) {
  if (failure_.empty()) failure_ = what + " (at " + ReferenceModel::spell(text_) + ")";
}

void CheckedAdversary::open_stream() {
  reference_ = std::make_shared<ReferenceModel>();
  opened_.reset();
  started_.reset();
  passes_ = 0;
  usage_seen_ = false;
  last_report_ = 0;
  link_.start(++epoch_, [this](const FromVerifier& event) { on_event(event.event); });
  adversary_.open_stream(random_.chance(0.8) ? last_session_ : "");
  if (plan_.guesses && random_.chance(0.2)) adversary_.send_round(2);
}

void CheckedAdversary::compare_tree() {
  if (const std::string wrong = reference_->compare(adversary_.tree()); !wrong.empty()) {
    fail("edge: " + wrong);
  }
}

// --- what it hears ----------------------------------------------------------------------------

void CheckedAdversary::on_event(const VerifierEvent& event) {
  if (done_) return;
  if (const auto* end = std::get_if<StreamEnded>(&event)) return on_end(end->status);
  if (usage_seen_) fail("message after Usage");
  const auto& message = std::get<ServerMessage>(event);
  std::visit([this](const auto& one) { check(one); }, message);
  if (!failure_.empty()) return;
  adversary_.take(message);
  compare_tree();
  if (std::holds_alternative<Verdict>(message)) react_to_verdict();
  if (std::holds_alternative<ExitReport>(message) && random_.chance(0.3)) adversary_.acknowledge();
}

void CheckedAdversary::check(const Progress& progress) {
  if ((passes_ > 0 && !plan_.may_be_preempted) || started_) fail("Progress after the prefill");
  if (progress.done >= progress.total || progress.total != adversary_.tree().end())
    fail("wrong Progress");
}

void CheckedAdversary::check(const Started& started) {
  if (started.position != adversary_.tree().end()) fail("Started elsewhere than at the end");
  if (started.pass != passes_) fail("Started out of order");
  started_ = started;
  reported_.clear();
  taken_ = reference_->living(adversary_.tree().text(), started.last_id);
  std::set<std::string> left_out;
  for (const NodeId id : started.left_out) left_out.insert(reference_->text_of(id));
  for (const std::string& node : left_out) {
    if (taken_.erase(node) == 0) fail("left out what did not live");
  }
  const bool wanted = started.pass == 0 || adversary_.ever_eager() || !taken_.empty() ||
                      !started.left_out.empty() || adversary_.asked_at(started.position);
  if (!wanted) fail("a pass that nobody asked for");
}

// How many tokens the walk along the pass's nodes must give.
std::size_t CheckedAdversary::expected_walk() const {
  const auto end = static_cast<std::size_t>(adversary_.tree().end());
  std::size_t length = 1;
  while (end + length < expected().size() &&
         taken_.contains(ReferenceModel::spell(std::span(expected()).first(end + length)))) {
    ++length;
  }
  return length;
}

// The walk that the exit must have found along the edge's nodes; its last token is the next one.
// at_least: so many tokens, whatever the nodes, as along the server's own.
std::vector<TokenId> CheckedAdversary::expected_exit_walk(std::size_t exit,
                                                          std::size_t at_least) const {
  const Open& open = plan_.open;
  std::vector<TokenId> text(adversary_.tree().text().begin(), adversary_.tree().text().end());
  while (true) {
    const auto position = static_cast<Position>(text.size());
    const std::vector<float> row = adjusted_plainly(
        exits_->logits_after(exit, text), text, open.prefix.size(), open.stop_ids, open.settings);
    text.push_back(choose(row, open.sampling, open.seed, position));
    const bool ends =
        position + 1 >= std::min(open.end_position, max_positions_) ||
        std::find(open.stop_ids.begin(), open.stop_ids.end(), text.back()) != open.stop_ids.end();
    const std::size_t walked = text.size() - static_cast<std::size_t>(adversary_.tree().end());
    if (ends) break;
    if (walked >= at_least && !taken_.contains(ReferenceModel::spell(text))) break;
  }
  return {text.begin() + static_cast<std::ptrdiff_t>(adversary_.tree().end()), text.end()};
}

void CheckedAdversary::check(const ExitReport& report) {
  if (exits_ == nullptr || !adversary_.ever_wanted_exits())
    return fail("exit report that nobody asked for");
  if (!started_ || report.pass != started_->pass) return fail("exit report of no pass in work");
  // A reader that stalls loses reports.
  const bool lost = link_.counts().dropped_reports > 0;
  const bool next = lost ? report.seq > last_report_ : report.seq == last_report_ + 1;
  last_report_ = report.seq;
  if (!next) return fail("exit reports out of order");
  if (!opened_ || static_cast<std::size_t>(report.exit) >= opened_->exits.size()) {
    return fail("report of an exit that is not there");
  }
  std::vector<TokenId> said = report.path;
  said.push_back(report.next_token);
  if (!reported_.emplace(report.leaf_id, said).second) fail("reported twice");
  const auto exit = static_cast<std::size_t>(report.exit);
  const std::size_t along_edges = expected_exit_walk(exit, 0).size() - 1;
  const auto walk = expected_exit_walk(exit, along_edges + said.size());
  std::vector<TokenId> leaf(adversary_.tree().text().begin(), adversary_.tree().text().end());
  leaf.insert(leaf.end(), walk.begin(), walk.begin() + static_cast<std::ptrdiff_t>(along_edges));
  const bool right_leaf = report.leaf_id == 0
                              ? along_edges == 0
                              : reference_->text_of(report.leaf_id) == ReferenceModel::spell(leaf);
  const bool right_path = std::ranges::equal(std::span(walk).subspan(along_edges), said);
  if (!right_path || (!report.path.empty() && !plan_.open.accepts_server_nodes)) {
    fail("not along the exit's own walk");
  }
  if (!right_leaf || report.next_token != walk.back()) fail("not what the exit must say");
  ++reports_;
}

void CheckedAdversary::check(const Verdict& verdict) {
  if (!started_ || verdict.pass != started_->pass) return fail("Verdict without Started");
  if (verdict.position != adversary_.tree().end()) return fail("Verdict elsewhere than at the end");
  // Behind the edge's nodes it may go on along the server's own.
  const auto own = static_cast<std::size_t>(std::popcount(verdict.server_nodes));
  if (verdict.tokens.size() != expected_walk() + own) {
    return fail("the walk is too short or too long");
  }
  const std::uint64_t behind = ((std::uint64_t{1} << own) - 1) << (expected_walk() - 1);
  if (verdict.server_nodes != behind) fail("nodes of the server's own before the edge's");
  if (own > 0 && !plan_.open.accepts_server_nodes) fail("nodes that nobody accepts");
  server_tokens_ += own;
  const bool reads_text = verdict.pass == 0 || plan_.may_be_preempted;
  const std::size_t least = taken_.size() + 1;
  if (verdict.rows < least) fail("a living node without a row");
  const bool may_be_own = opened_ && opened_->server_drafts;
  if (!reads_text && !may_be_own && verdict.rows > least) fail("a row for no living node");
  if (verdict.batch_rows != 0 && verdict.batch_rows <= verdict.rows) fail("a batch without others");
  started_.reset();
  ++passes_;
  text_.insert(text_.end(), verdict.tokens.begin(), verdict.tokens.end());
  if (text_.size() > expected().size() ||
      !std::equal(text_.begin(), text_.end(), expected().begin())) {
    return fail("not the target's text");
  }
}

void CheckedAdversary::react_to_verdict() {
  if (plan_.guesses && random_.chance(0.2)) adversary_.acknowledge();
  if (random_.chance(0.5)) {
    keep_alive();
  } else {
    const Position end = adversary_.tree().end();
    simulation_.after(random_.between(Duration{0}, plan_.think), [this, end] {
      if (!done_ && adversary_.tree().end() == end) keep_alive();
    });
  }
}

void CheckedAdversary::check(const Usage& usage) {
  usage_seen_ = true;
  if (usage.passes != passes_ && usage.reason != FinishReason::kCancelled)
    fail("passes miscounted");
  if (usage.reason == FinishReason::kCancelled) {
    if (!adversary_.cancelled()) fail("cancelled by nobody");
    cancelled_ = true;
  } else if (text_ != expected()) {
    fail("the answer is not whole");
  }
}

void CheckedAdversary::on_end(const Status& status) {
  // The link may be lost between the verifier's last two words.
  const bool lost_at_the_end = usage_seen_ && link_.counts().cuts > 0;
  if (usage_seen_ != status.ok() && !lost_at_the_end) {
    fail("the stream ended with " + status.to_string());
  }
  const bool again = status.code() == StatusCode::kUnavailable ||
                     status.code() == StatusCode::kResourceExhausted ||
                     status.code() == StatusCode::kDeadlineExceeded;
  if (!again || adversary_.cancelled() || text_ == expected()) {
    done_ = true;
    cancelled_ |= text_ != expected();
    if (!status.ok() && !again) fail("refused: " + status.to_string());
    return;
  }
  if (opened_) last_session_ = opened_->session_id;
  simulation_.after(random_.between(from_ms(1), from_ms(200)), [this] { open_stream(); });
}

// --- what it does -----------------------------------------------------------------------------

void CheckedAdversary::act_later() {
  simulation_.after(random_.between(Duration{1}, plan_.think), [this] {
    if (done_) return;
    if (link_.connected() && !usage_seen_ && !adversary_.cancelled()) act();
    act_later();
  });
}

void CheckedAdversary::act() {
  if (random_.chance(plan_.cut)) {
    return link_.cut(random_.between(Duration{0}, from_ms(50)),
                     random_.between(Duration{0}, from_ms(400)));
  }
  if (!plan_.guesses) return;
  if (random_.chance(plan_.cancel)) return adversary_.cancel();
  switch (random_.below(9)) {
    case 0:
      return adversary_.acknowledge();
    case 1:
      return adversary_.send_policy();
    case 2:
      return keep_alive();
    case 3:
      return random_.chance(0.3) ? adversary_.send_strays() : adversary_.send_round(3);
    default:
      adversary_.grow_guesses();
      if (random_.chance(0.7)) adversary_.send_guesses();
  }
  compare_tree();
}

void CheckedAdversary::keep_alive() {
  if (link_.connected()) adversary_.keep_alive();
}

void CheckedAdversary::check_server(StreamId stream, const VerifySession& session) {
  const auto reference = references_.find(stream);
  if (reference == references_.end()) return;  // another edge's
  if (const std::string wrong = reference->second->compare(session.tree()); !wrong.empty()) {
    fail("server: " + wrong);
  }
  const auto text = session.tree().text();
  if (text.size() > expected().size() ||
      !std::equal(text.begin(), text.end(), expected().begin())) {
    fail("server: not the target's text");
  }
}

}  // namespace outrider
