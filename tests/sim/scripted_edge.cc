// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/scripted_edge.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace outrider {

ScriptedEdge::ScriptedEdge(Simulation& simulation, SimLink& link, const ToyModel& target,
                           const ToyExits* exits, Script script)
    : simulation_(simulation),
      random_(simulation.random()),
      link_(link),
      exits_(exits),
      script_(std::move(script)),
      vocab_size_(target.info().vocab_size),
      max_positions_(target.info().max_positions),
      expected_(target.decode(script_.open.prefix, script_.open.end_position, script_.open.sampling,
                              script_.open.seed, script_.open.stop_ids)),
      text_(script_.open.prefix) {
  link_.on_connected = [this](StreamId stream) { references_[stream] = reference_; };
}

void ScriptedEdge::begin() {
  open_stream();
  act_later();
}

void ScriptedEdge::fail(const std::string& what) {
  if (failure_.empty()) failure_ = what + " (at " + ReferenceModel::spell(text_) + ")";
}

void ScriptedEdge::open_stream() {
  tree_.emplace(text_);
  reference_ = std::make_shared<ReferenceModel>();
  opened_.reset();
  started_.reset();
  asked_.clear();
  passes_ = 0;
  usage_seen_ = false;
  Open open = script_.open;
  open.prefix = text_;
  if (random_.chance(0.8)) open.replaced_session = last_session_;
  policy_ = open.policy;
  ever_eager_ = policy_.pass_policy == PassPolicy::kEager;
  ever_wanted_exits_ = policy_.wants_exits;
  last_report_ = acked_reports_ = 0;
  link_.start(++epoch_, [this](const FromVerifier& event) {
    if (event.epoch != epoch_) fail("an event of a stream that is over");
    on_event(event.event);
  });
  send(std::move(open));
}

void ScriptedEdge::send(decltype(EdgeMessage::body) body) {
  acked_ = tree_->end();
  if (random_.chance(0.7)) acked_reports_ = last_report_;
  link_.send({.acked_position = acked_, .acked_reports = acked_reports_, .body = std::move(body)});
}

void ScriptedEdge::send_grow(const std::vector<NodeIndex>& nodes) {
  if (nodes.empty()) asked_.insert(tree_->end());
  Grow grow = tree_->send(nodes);
  reference_->sent(tree_->text(), grow);
  if (const std::string wrong = reference_->compare(*tree_); !wrong.empty()) fail("edge: " + wrong);
  send(std::move(grow));
}

// --- what it hears ----------------------------------------------------------------------------

void ScriptedEdge::on_event(const VerifierEvent& event) {
  if (done_) return;
  if (const auto* end = std::get_if<StreamEnded>(&event)) return on_end(end->status);
  if (usage_seen_) fail("message after Usage");
  std::visit([this](const auto& message) { on(message); }, std::get<ServerMessage>(event));
}

void ScriptedEdge::on(const Progress& progress) {
  if (passes_ > 0 || started_) fail("Progress after the prefill");
  if (progress.done >= progress.total || progress.total != tree_->end()) fail("wrong Progress");
}

void ScriptedEdge::on(const Started& started) {
  if (started.position != tree_->end()) fail("Started elsewhere than at the end");
  if (started.pass != passes_) fail("Started out of order");
  started_ = started;
  reported_.clear();
  taken_ = reference_->living(tree_->text(), started.last_id);
  for (const NodeId id : started.left_out) {
    if (taken_.erase(reference_->text_of(id)) == 0) fail("left out what did not live");
  }
  const bool wanted = started.pass == 0 || ever_eager_ || !taken_.empty() ||
                      !started.left_out.empty() || asked_.contains(started.position);
  if (!wanted) fail("a pass that nobody asked for");
}

// How many tokens the walk along the pass's nodes must give.
std::size_t ScriptedEdge::expected_walk() const {
  const auto end = static_cast<std::size_t>(tree_->end());
  std::size_t length = 1;
  while (end + length < expected_.size() &&
         taken_.contains(ReferenceModel::spell(std::span(expected_).first(end + length)))) {
    ++length;
  }
  return length;
}

// The walk that the exit must have found; its last token is the next one.
std::vector<TokenId> ScriptedEdge::expected_exit_walk(std::size_t exit) const {
  const Open& open = script_.open;
  std::vector<TokenId> text(tree_->text().begin(), tree_->text().end());
  while (true) {
    const auto position = static_cast<Position>(text.size());
    text.push_back(choose(exits_->logits_after(exit, text), open.sampling, open.seed, position));
    const bool ends =
        position + 1 >= std::min(open.end_position, max_positions_) ||
        std::find(open.stop_ids.begin(), open.stop_ids.end(), text.back()) != open.stop_ids.end();
    if (ends || !taken_.contains(ReferenceModel::spell(text))) break;
  }
  return {text.begin() + static_cast<std::ptrdiff_t>(tree_->end()), text.end()};
}

void ScriptedEdge::on(const ExitReport& report) {
  if (exits_ == nullptr || !ever_wanted_exits_) return fail("exit report that nobody asked for");
  if (!started_ || report.pass != started_->pass) return fail("exit report of no pass in work");
  if (report.seq != ++last_report_) return fail("exit reports out of order");
  if (!opened_ || static_cast<std::size_t>(report.exit) >= opened_->exits.size()) {
    return fail("report of an exit that is not there");
  }
  if (!reported_.emplace(report.leaf_id, report.next_token).second) fail("reported twice");
  const auto walk = expected_exit_walk(static_cast<std::size_t>(report.exit));
  std::vector<TokenId> leaf(tree_->text().begin(), tree_->text().end());
  leaf.insert(leaf.end(), walk.begin(), walk.end() - 1);
  const bool right_leaf = report.leaf_id == 0
                              ? walk.size() == 1
                              : reference_->text_of(report.leaf_id) == ReferenceModel::spell(leaf);
  if (!right_leaf || report.next_token != walk.back()) fail("not what the exit must say");
  ++reports_;
  if (random_.chance(0.3)) send(AckOnly{});
}

void ScriptedEdge::on(const Verdict& verdict) {
  if (!started_ || verdict.pass != started_->pass) return fail("Verdict without Started");
  if (verdict.position != tree_->end()) return fail("Verdict elsewhere than at the end");
  if (verdict.tokens.size() != expected_walk()) return fail("the walk is too short or too long");
  const bool prefills = verdict.pass == 0;
  if (!prefills && verdict.rows != taken_.size() + 1) fail("a row for no living node");
  started_.reset();
  ++passes_;
  tree_->commit(verdict.tokens);
  text_.assign(tree_->text().begin(), tree_->text().end());
  if (text_.size() > expected_.size() ||
      !std::equal(text_.begin(), text_.end(), expected_.begin())) {
    return fail("not the target's text");
  }
  if (const std::string wrong = reference_->compare(*tree_); !wrong.empty()) fail("edge: " + wrong);
  if (script_.guesses && random_.chance(0.2)) send(AckOnly{});
  if (random_.chance(0.5)) {
    keep_alive();
  } else {
    simulation_.after(random_.between(Duration{0}, script_.think), [this, tree_end = tree_->end()] {
      if (!done_ && tree_->end() == tree_end) keep_alive();
    });
  }
}

void ScriptedEdge::on(const Usage& usage) {
  usage_seen_ = true;
  if (usage.passes != passes_ && usage.reason != FinishReason::kCancelled)
    fail("passes miscounted");
  if (usage.reason == FinishReason::kCancelled) {
    if (!sent_cancel_) fail("cancelled by nobody");
    cancelled_ = true;
  } else if (text_ != expected_) {
    fail("the answer is not whole");
  }
}

void ScriptedEdge::on_end(const Status& status) {
  if (usage_seen_ != status.ok()) fail("the stream ended with " + status.to_string());
  const bool again = status.code() == StatusCode::kUnavailable ||
                     status.code() == StatusCode::kResourceExhausted ||
                     status.code() == StatusCode::kDeadlineExceeded;
  if (!again || sent_cancel_ || text_ == expected_) {
    done_ = true;
    cancelled_ |= text_ != expected_;
    if (!status.ok() && !again) fail("refused: " + status.to_string());
    return;
  }
  if (opened_) last_session_ = opened_->session_id;
  simulation_.after(random_.between(from_ms(1), from_ms(200)), [this] { open_stream(); });
}

// --- what it does -----------------------------------------------------------------------------

void ScriptedEdge::act_later() {
  simulation_.after(random_.between(Duration{1}, script_.think), [this] {
    if (done_) return;
    if (link_.connected() && !usage_seen_ && !sent_cancel_) act();
    act_later();
  });
}

void ScriptedEdge::act() {
  if (random_.chance(script_.cut)) {
    return link_.cut(random_.between(Duration{0}, from_ms(50)),
                     random_.between(Duration{0}, from_ms(400)));
  }
  if (!script_.guesses) return;
  if (random_.chance(script_.cancel)) {
    sent_cancel_ = true;
    return send(Cancel{});
  }
  switch (random_.below(8)) {
    case 0:
      return send(AckOnly{});
    case 1:
      return send_policy();
    case 2:
      return keep_alive();
    default:
      grow_guesses();
      if (random_.chance(0.7)) send_some();
  }
}

// Mostly the target's choice where the path is the target's, else any token.
TokenId ScriptedEdge::guess_after(NodeIndex parent) {
  std::vector<TokenId> path;
  for (NodeIndex node = parent; node != kRoot; node = tree_->node(node).parent) {
    path.push_back(tree_->node(node).token);
  }
  const std::size_t position = static_cast<std::size_t>(tree_->end()) + path.size();
  const bool right = position < expected_.size() &&
                     std::equal(path.rbegin(), path.rend(),
                                expected_.begin() + static_cast<std::ptrdiff_t>(tree_->end()));
  if (right && random_.chance(script_.guess_right)) return expected_[position];
  return static_cast<TokenId>(random_.below(static_cast<std::uint64_t>(vocab_size_)));
}

void ScriptedEdge::grow_guesses() {
  for (std::uint64_t left = random_.below(6); left > 0; --left) {
    std::vector<NodeIndex> parents{kRoot};
    std::ranges::copy(tree_->nodes(), std::back_inserter(parents));
    // The newest are the deepest: favour chains.
    const std::size_t pick =
        random_.chance(0.6) ? parents.size() - 1 : random_.below(parents.size());
    const NodeIndex parent = parents[pick];
    const NodeIndex node = tree_->add(parent, guess_after(parent));
    if (tree_->node(node).id == 0) {
      tree_->set_confidence(node, static_cast<float>(random_.below(256)) / 255.0f);
    }
    if (tree_->node(node).id == 0 && random_.chance(0.05)) tree_->remove_unsent(node);
  }
}

// Unsent nodes in a random order, parents first, within the limit of living nodes.
void ScriptedEdge::send_some() {
  const std::size_t limit = opened_ ? opened_->limits.max_nodes : Limits{}.max_nodes;
  std::vector<NodeIndex> chosen;
  std::vector<NodeIndex> ready{kRoot};
  for (std::size_t i = 0; i < ready.size(); ++i) {
    const std::size_t swap = i + random_.below(ready.size() - i);
    std::swap(ready[i], ready[swap]);
    const NodeIndex node = ready[i];
    if (node != kRoot && tree_->node(node).id == 0) {
      if (tree_->ids().living().size() + chosen.size() >= limit) break;
      if (random_.chance(0.3)) continue;
      chosen.push_back(node);
    }
    for (const NodeIndex child : tree_->children(node)) ready.push_back(child);
  }
  if (!chosen.empty()) send_grow(chosen);
}

void ScriptedEdge::send_policy() {
  policy_.pass_policy = random_.chance(0.5) ? PassPolicy::kEager : PassPolicy::kOnRequest;
  ever_eager_ |= policy_.pass_policy == PassPolicy::kEager;
  policy_.patience = random_.between(Duration{0}, from_ms(30));
  policy_.row_limit = static_cast<std::uint32_t>(random_.below(6));
  policy_.wants_exits = random_.chance(0.5);
  ever_wanted_exits_ |= policy_.wants_exits;
  send(policy_);
  keep_alive();
}

// The rule of liveness, and the acknowledgement in time to prevent a pause.
void ScriptedEdge::keep_alive() {
  if (!link_.connected() || sent_cancel_) return;
  const auto run_ahead = static_cast<Position>((opened_ ? opened_->limits : Limits{}).run_ahead);
  if (policy_.pass_policy == PassPolicy::kOnRequest && tree_->ids().living().empty()) {
    send_grow({});
  } else if (tree_->end() - acked_ >= std::max<Position>(1, run_ahead / 2)) {
    send(AckOnly{});
  }
}

void ScriptedEdge::check_server(StreamId stream, const VerifySession& session) {
  const auto reference = references_.find(stream);
  if (reference == references_.end()) return;  // another edge's
  if (const std::string wrong = reference->second->compare(session.tree()); !wrong.empty()) {
    fail("server: " + wrong);
  }
  const auto text = session.tree().text();
  if (text.size() > expected_.size() || !std::equal(text.begin(), text.end(), expected_.begin())) {
    fail("server: not the target's text");
  }
}

}  // namespace outrider
