// An edge that deliberately bypasses the decoding session. It keeps the protocol (docs/protocol.md)
// but sends more than any strategy would: guesses in any order that the rules allow, deep and wide
// trees, nodes that repeat others, nodes that are dead on arrival, anchors in the past; before the
// stream opens, after verdicts and during passes. Whatever it sends, the text must be the target's.
//
// Its owner decides when it acts, carries its messages and hands it the verifier's. Thread rule:
// one thread. Ownership: the random numbers outlive it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/decoding/protocol/messages.h"
#include "common/decoding/tree/mirrored_tree.h"
#include "emulation/random/random.h"

namespace outrider {

struct AdversaryScript {
  Open open;                      // of the first stream; its prefix is the prompt
  std::vector<TokenId> expected;  // the target's own text, with the prompt
  std::int32_t vocab_size = 0;
  double guess_right = 0.75;  // how often a guess on the right path is the target's choice
};

class Adversary final {
 public:
  using Send = std::function<void(EdgeMessage)>;

  Adversary(AdversaryScript script, SeededRandom& random, Send send);

  // Called with the text and each Grow before it is sent.
  std::function<void(std::span<const TokenId>, const Grow&)> on_grow;

  // Opens a new stream with the text so far.
  void open_stream(std::string replaced_session);
  // Applies a message. A verdict must be of this stream and at the end of the text.
  void take(const ServerMessage& message);

  // --- what it may do at any time while its stream is open ---
  // A chain from the end of the text, and a random tree on it and on nodes sent before.
  void send_round(int chain_length);
  // No chain, and an anchor anywhere in the text; its nodes are mostly dead on arrival.
  void send_strays();
  // Makes guesses that are not sent yet, and sends some of them in a random order.
  void grow_guesses();
  void send_guesses();
  void send_policy();
  void acknowledge() { send(AckOnly{}); }
  void cancel();
  // Keeps the rule of liveness, and acknowledges in time to prevent a pause.
  void keep_alive();

  const MirroredTree& tree() const { return tree_; }
  const AdversaryScript& script() const { return script_; }
  bool cancelled() const { return cancelled_; }
  // Whether this stream ever requested a policy, and where an empty Grow requested a pass.
  bool ever_eager() const { return ever_eager_; }
  bool ever_wanted_exits() const { return ever_wanted_exits_; }
  bool asked_at(Position position) const { return asked_.contains(position); }

 private:
  void send(EdgeMessage::Body body);
  void send_raw(Grow grow);
  void send_own(const std::vector<NodeIndex>& nodes);
  void add_extras(Grow& grow);
  void set_policy(const Policy& policy);
  TokenId random_token();
  TokenId guess_at(Position position);
  TokenId guess_after(NodeIndex parent);

  const AdversaryScript script_;
  SeededRandom& random_;
  const Send send_;

  // These belong to the stream that is open.
  MirroredTree tree_;
  Limits limits_;
  Policy policy_;
  Position acked_ = 0;
  std::uint32_t reports_seen_ = 0;
  std::uint32_t acked_reports_ = 0;
  std::set<Position> asked_;
  bool ever_eager_ = false;
  bool ever_wanted_exits_ = false;
  bool cancelled_ = false;
};

}  // namespace outrider
