// SPDX-License-Identifier: Apache-2.0
#include "bench/edges/tree_edge.h"

#include <algorithm>
#include <random>

#include "bench/edges/event_queue.h"
#include "common/tree/mirrored_tree.h"

namespace outrider {
namespace {

constexpr int kMaxExtraNodes = 12;
constexpr NodeId kHowFarBack = 40;  // ids that an extra node may hang under

class TreeEdge final {
 public:
  TreeEdge(Verifier& verifier, const TreeScript& script)
      : verifier_(verifier), script_(script), mirror_(script.open.prefix), random_(script.seed) {}

  Result<std::vector<TokenId>> run() {
    verifier_.start(1, events_.sink());
    verifier_.send({0, 0, script_.open});
    send(round());
    while (true) {
      const VerifierEvent event = events_.next();
      if (const auto* ended = std::get_if<StreamEnded>(&event)) {
        if (!ended->status.ok()) return ended->status;
        const auto text = mirror_.text().subspan(script_.open.prefix.size());
        return std::vector<TokenId>(text.begin(), text.end());
      }
      OUTRIDER_RETURN_IF_ERROR(on_message(std::get<ServerMessage>(event)));
    }
  }

 private:
  Status on_message(const ServerMessage& message) {
    if (const auto* opened = std::get_if<Opened>(&message)) max_nodes_ = opened->limits.max_nodes;
    if (std::holds_alternative<Started>(message)) send(strays());
    const auto* verdict = std::get_if<Verdict>(&message);
    if (verdict == nullptr) return {};
    if (verdict->position != mirror_.end()) {
      return internal_error("verdict at " + std::to_string(verdict->position) +
                            ", but the text ends at " + std::to_string(mirror_.end()));
    }
    mirror_.commit(verdict->tokens);
    send(round());
    return {};
  }

  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_() % bound); }

  TokenId random_token() {
    return static_cast<TokenId>(below(static_cast<std::uint32_t>(script_.vocab_size)));
  }

  TokenId guess(Position position) {
    const Position index = position - static_cast<Position>(script_.open.prefix.size());
    const bool known = index < static_cast<Position>(script_.right.size());
    if (!known || below(4) == 0) return random_token();
    return script_.right[static_cast<std::size_t>(index)];
  }

  // A chain from the end of the text, and a random tree on it and on what was sent before.
  Grow round() {
    Grow grow{mirror_.ids().next_id(), mirror_.end(), {}};
    for (int i = 0; i < script_.chain_length; ++i) {
      grow.nodes.push_back({guess(mirror_.end() + i), i == 0 ? 0u : 1u, 128});
    }
    add_extras(grow);
    return grow;
  }

  // No chain, and an anchor anywhere in the text: mostly dead on arrival.
  Grow strays() {
    Grow grow{mirror_.ids().next_id(), 0, {}};
    grow.anchor_position = below(static_cast<std::uint32_t>(mirror_.end() + 1));
    grow.nodes.push_back({random_token(), 0, 1});
    add_extras(grow);
    return grow;
  }

  void add_extras(Grow& grow) {
    for (std::uint32_t i = below(kMaxExtraNodes); i > 0; --i) {
      const NodeId own = grow.first_id + static_cast<NodeId>(grow.nodes.size());
      const std::uint32_t parent = below(std::min(own, kHowFarBack));  // 0: the anchor
      const bool repeats = !grow.nodes.empty() && below(3) == 0;
      const TokenId token =
          repeats ? grow.nodes[below(static_cast<std::uint32_t>(grow.nodes.size()))].token
                  : guess(mirror_.end() + below(8));
      grow.nodes.push_back({token, parent, static_cast<std::uint8_t>(below(256))});
    }
  }

  // Keeps the peer's limit of living nodes, as far as this side can know.
  void send(Grow grow) {
    const std::size_t room = max_nodes_ - std::min<std::size_t>(max_nodes_, living());
    if (grow.nodes.size() > room) grow.nodes.resize(room);
    const Result<Received> received =
        mirror_.receive(grow, {.vocab_size = script_.vocab_size, .max_nodes = max_nodes_});
    OUTRIDER_CHECK(received.ok());
    verifier_.send({mirror_.end(), 0, std::move(grow)});
  }

  std::size_t living() const { return mirror_.ids().living().size(); }

  Verifier& verifier_;
  const TreeScript& script_;
  EventQueue events_;
  MirroredTree mirror_;
  std::mt19937_64 random_;
  std::uint32_t max_nodes_ = Limits{}.max_nodes;
};

}  // namespace

Result<std::vector<TokenId>> answer_with_trees(Verifier& verifier, const TreeScript& script) {
  TreeEdge edge(verifier, script);
  Result<std::vector<TokenId>> answer = edge.run();
  verifier.stop();  // before the queue that it fills goes
  return answer;
}

}  // namespace outrider
