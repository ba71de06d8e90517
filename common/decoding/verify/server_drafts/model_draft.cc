// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/server_drafts/model_draft.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/decoding/verify/session/session.h"
#include "common/engine/model/row_check.h"

namespace outrider {
namespace {

constexpr std::size_t kLongestChain = 16;
// No memory holds a longer one.
constexpr Position kLongestContext = 1 << 24;
// The most tokens of text that the draft reads before one pass, all sessions together: others wait
// meanwhile.
constexpr std::size_t kReadAtOnce = 64;
// While it is not known what a step takes.
constexpr std::size_t kFirstChain = 4;
// The share of the time of passes that goes to steps of resting sessions, so that their gain stays
// known.
constexpr double kProbeShare = 0.01;
// A chain that stands with less chance is never worth a step.
constexpr double kMinChainChance = 0.1;
constexpr double kKeepReading = 0.9;
// Tokens that an answer is taken to have left, unless it ends sooner.
constexpr Position kTypicalAnswer = 128;

KvPoolOptions for_context(KvPoolOptions kv, Position context) {
  kv.capacity = static_cast<std::int32_t>(context);
  kv.kept = 0;
  return kv;
}

}  // namespace

ModelDraft::ModelDraft(Model& model, const DraftExperience& experience, const KvPoolOptions& kv,
                       std::uint32_t sessions)
    : model_(model),
      context_(std::min(model.info().max_positions, kLongestContext)),
      pool_(model, for_context(kv, context_), sessions),
      experience_(experience),
      curve_(experience.step_costs.curve()) {}

void ModelDraft::forget(const std::function<bool(StreamId)>& lives, TimePoint now) {
  for (auto at = lanes_.begin(); at != lanes_.end();) {
    at = lives(at->first) ? std::next(at) : drop(at);
  }
  pool_.expire(now);
}

// The text that it has read stays for others while there is room.
ModelDraft::Lanes::iterator ModelDraft::drop(Lanes::iterator at) {
  pool_.release(std::move(at->second.lease));
  return lanes_.erase(at);
}

// Null: its tenant has no memory left for it.
Result<ModelDraft::Lane*> ModelDraft::lane_of(const Client& client, TimePoint now) {
  auto at = lanes_.find(client.stream);
  if (at == lanes_.end()) {
    // Nothing is promised: drafts take what is there.
    Result<KvPool::Lease> lease = pool_.take({.id = {}, .key = {}, .owner = *client.owner},
                                             client.session->tree().text(), 0, now);
    if (!lease.ok() && pool_.is_allocated()) return nullptr;
    OUTRIDER_RETURN_IF_ERROR(lease.status());
    at = lanes_.emplace(client.stream, Lane{.lease = *std::move(lease)}).first;
  }
  Lane& lane = at->second;
  lane.session = client.session;
  lane.weight = client.weight;
  lane.used = drafts_;
  return &lane;
}

// Memory for the lane's next rows. False: those of this draft() have it all, or the tenant's share
// of it is used up.
bool ModelDraft::reserve(Lane& lane, std::size_t rows) {
  while (!pool_.reserve(lane.lease, static_cast<std::int32_t>(rows), 0).ok()) {
    const auto oldest =
        std::ranges::min_element(lanes_, {}, [](const auto& entry) { return entry.second.used; });
    if (pool_.was_share_short() || oldest->second.used == drafts_) return false;
    drop(oldest);
  }
  return true;
}

// Learns the fate of its last chain; returns how many of its tokens became text, one after the
// other.
std::size_t ModelDraft::learn(Lane& lane) {
  const std::span<const TokenId> text = lane.session->tree().text();
  std::vector<ChainStep> steps;  // that took time
  std::size_t stood = 0;
  for (; stood < lane.chain.size() && lane.base + stood < text.size(); ++stood) {
    const Link& link = lane.chain[stood];
    const bool right = link.token == text[lane.base + stood];
    experience_.calibration.observe(0, link.stated, right);
    if (!link.free) steps.push_back({link.covered, right && !link.repeats});
    if (!right) break;
  }
  if (!steps.empty()) {
    lane.gains.add(steps);
    experience_.gains.add(steps);
  }
  return stood;
}

// The text has come on: keeps the rows that became text, and what hangs behind it.
void ModelDraft::settle(Lane& lane, TimePoint now) {
  const std::span<const TokenId> text = lane.session->tree().text();
  const std::size_t stood = learn(lane);
  // Its end is in the middle of the chain: the guess that follows is there.
  const bool goes_on = lane.base + stood == text.size() && stood > 0 && stood < lane.chain.size();
  // Otherwise the last token's row is run again: it says what follows.
  std::size_t kept = goes_on ? stood : std::min(stood, text.size() - lane.base - 1);
  while (kept > 0 && lane.chain[kept - 1].slot == kRootSlot) --kept;
  KvSlots& slots = lane.lease.cache->slots();
  slots.commit(kept > 0 ? lane.chain[kept - 1].slot : kRootSlot);
  lane.base = text.size();
  lane.chain.erase(lane.chain.begin(), lane.chain.begin() + static_cast<std::ptrdiff_t>(stood));
  if (!goes_on) {
    slots.release_all_uncommitted();
    lane.chain.clear();
  }
  pool_.share(lane.lease, text, now);
  if (!goes_on && unread(lane) > kLongestChain) pool_.extend(lane.lease, text, now);
  lane.reads = !goes_on;
  lane.foreign = std::ranges::any_of(
      text.last(unread(lane)), [this](TokenId token) { return token >= model_.info().vocab_size; });
  add_nodes(lane);
}

// The chain's, in the session's tree.
void ModelDraft::add_nodes(Lane& lane) {
  lane.node = kRoot;
  lane.chance = 1;
  for (const Link& link : lane.chain) {
    if (lane.node != kNoNode)
      lane.node = lane.session->add_own(lane.node, {link.token, link.chance});
    lane.chance *= lane.node == kNoNode ? 0 : double{link.chance};
  }
}

std::size_t ModelDraft::unread(const Lane& lane) {
  const KvSlots& slots = lane.lease.cache->slots();
  return static_cast<std::size_t>(lane.session->tree().end() - slots.committed());
}

// The chance of what was drafted, by look-up, where its next guess comes.
float ModelDraft::covered(const Lane& lane) {
  const MirroredTree& tree = lane.session->tree();
  float chance = 0;
  for (const NodeIndex child : tree.children(lane.node)) chance += tree.node(child).confidence;
  return std::min(chance, 1.0f);
}

double ModelDraft::gain_of(const Lane& lane, const Worth& worth) const {
  if (is_at_end(lane) || (lane.reads && !pays_to_read(lane, worth))) return 0;
  return lane.weight * lane.chance *
         lane.gains.chance(lane.chain.size(), covered(lane), experience_.gains);
}

// Puts first those lanes for which a step is worth its time; how many they are.
std::size_t ModelDraft::paying(std::span<Lane*> lanes, const Worth& worth) const {
  for (Lane* const lane : lanes) lane->gain = gain_of(*lane, worth);
  std::ranges::stable_sort(lanes, std::greater{}, &Lane::gain);
  double gain = 0, best = 0;
  std::size_t most = 0;
  for (std::size_t n = 1; n <= lanes.size() && lanes[n - 1]->gain > 0; ++n) {
    gain += lanes[n - 1]->gain;
    const double seconds = curve_.time(n) + static_cast<double>(n) * worth.row_seconds;
    const double surplus = gain - worth.price * seconds;
    if (surplus <= best) continue;
    best = surplus;
    most = n;
  }
  return most;
}

// Puts first those that are tried all the same, whose last step is longest ago, as far as there is
// time for that; how many they are.
std::size_t ModelDraft::probed(std::span<Lane*> resting, const Worth& worth) {
  if (resting.empty()) return 0;
  probe_seconds_ += kProbeShare * worth.pass_seconds;
  std::ranges::stable_sort(resting, {}, &Lane::tried);
  const double step = curve_.time(1) + worth.row_seconds;
  const auto affordable = [&](const Lane* lane) {
    const auto reading = [&](std::size_t tokens) {
      return static_cast<double>(tokens) * experience_.read_row_seconds;
    };
    if (!lane->chain.empty() || step + reading(unread(*lane)) > probe_seconds_) return false;
    probe_seconds_ -= step + reading(std::min(unread(*lane), kReadAtOnce));
    return true;
  };
  return static_cast<std::size_t>(std::ranges::stable_partition(resting, affordable).begin() -
                                  resting.begin());
}

// A text that the draft has not read costs all who wait its reading. That pays if the answer is
// long enough: by the time that a token takes less with the best length of chain.
bool ModelDraft::pays_to_read(const Lane& lane, const Worth& worth) const {
  if (unread(lane) <= kLongestChain || worth.pass_seconds <= 0) return true;
  const float covered = ModelDraft::covered(lane);
  const double step = curve_.time(worth.sessions);
  const double row = static_cast<double>(worth.sessions) * worth.row_seconds;
  double tokens = 1, chance = 1, least = worth.pass_seconds;
  for (std::size_t length = 1; length <= kLongestChain; ++length) {
    chance *= lane.gains.chance(length - 1, covered, experience_.gains);
    tokens += chance;
    const double seconds = worth.pass_seconds + static_cast<double>(length) * (step + row);
    least = std::min(least, seconds / tokens);
  }
  const Position left = lane.session->opened().end_position - lane.session->tree().end();
  const double saved =
      (worth.pass_seconds - least) * static_cast<double>(std::min(left, kTypicalAnswer));
  const double reading = static_cast<double>(unread(lane)) * experience_.read_row_seconds;
  return saved > reading * static_cast<double>(worth.sessions);
}

Status ModelDraft::draft(std::span<const Client> clients, const Worth& worth, const Clock& clock) {
  ++drafts_;  // lanes of earlier ones stay out of draft_on()
  if (clients.empty()) return {};
  std::vector<Lane*> lanes;
  for (const Client& client : clients) {
    // A text beyond the draft's context goes on without it.
    if (client.session->tree().end() >= context_) continue;
    OUTRIDER_ASSIGN_OR_RETURN(Lane* const lane, lane_of(client, clock.now()));
    if (lane == nullptr || lane->foreign) continue;
    if (lane->base == client.session->tree().text().size() && !lane->reads) {
      add_nodes(*lane);  // it did not ride meanwhile
      continue;
    }
    settle(*lane, clock.now());
    if (!lane->foreign && !is_at_end(*lane)) lanes.push_back(lane);
  }
  for (std::size_t length = 0; length < (curve_.time(1) > 0 ? kLongestChain : kFirstChain);
       ++length) {
    const std::size_t pay = paying(lanes, worth);
    const std::size_t probes = length == 0 ? probed(std::span(lanes).subspan(pay), worth) : 0;
    lanes.resize(pay + probes);
    if (lanes.empty()) break;
    OUTRIDER_RETURN_IF_ERROR(step(lanes, clock));
    std::erase_if(lanes, [this](const Lane* lane) { return lane->reads || is_at_end(*lane); });
  }
  return {};
}

// Nothing that it could guess next would be of use.
bool ModelDraft::is_at_end(const Lane& lane) const {
  // Its end was computed, and no guess followed that the tree took.
  if (!lane.reads && (lane.chain.empty() || lane.chain.back().slot != kRootSlot)) return true;
  return lane.chance < kMinChainChance || lane.chain.size() >= kLongestChain ||
         lane.session->tree().end() + static_cast<Position>(lane.chain.size()) + 1 > context_;
}

Status ModelDraft::draft_on(TimePoint until, const std::atomic<bool>& over, const Clock& clock) {
  std::vector<Lane*> lanes;
  for (auto& [stream, lane] : lanes_) {
    if (lane.used != drafts_ || lane.foreign) continue;  // its session may be over
    if (lane.base == lane.session->tree().text().size()) lanes.push_back(&lane);
  }
  while (true) {
    std::erase_if(lanes, [this](const Lane* lane) { return is_at_end(*lane); });
    std::size_t reading = 0;
    for (const Lane* const lane : lanes) reading += lane->reads ? unread(*lane) : 0;
    const double seconds = curve_.time(lanes.size()) +
                           experience_.read_row_seconds *
                               static_cast<double>(std::min(reading, kReadAtOnce + lanes.size()));
    if (lanes.empty() || over.load(std::memory_order_relaxed) ||
        clock.now() + from_ms(1e3 * seconds) > until)
      return {};
    OUTRIDER_RETURN_IF_ERROR(step(lanes, clock, true));
  }
}

// Adds the rows that the lane wants in the next step: text that was not read, or else the end of
// its chain. False if there is no memory for it.
bool ModelDraft::add_rows(Lane& lane, std::size_t& reading_left) {
  KvSlots& slots = lane.lease.cache->slots();
  if (!lane.reads) {
    if (!reserve(lane, 1)) return false;
    Link& end = lane.chain.back();
    const Slot parent = lane.chain.size() > 1 ? lane.chain[lane.chain.size() - 2].slot : kRootSlot;
    end.slot = *slots.append(parent);
    rows_.push_back({lane.lease.cache.get(), end.slot, end.token, true});
    return true;
  }
  // Some of it always, so that every text is read in the end.
  const std::size_t count = std::min(unread(lane), std::max<std::size_t>(reading_left, 1));
  if (!reserve(lane, count)) return false;
  reading_left -= std::min(reading_left, count);
  Slot above = kRootSlot;
  for (const TokenId token : lane.session->tree().text().last(unread(lane)).first(count)) {
    above = *slots.append(above);
    rows_.push_back({lane.lease.cache.get(), above, token, false});
  }
  lane.reads = count < unread(lane);
  rows_.back().wants_logits = !lane.reads;
  return true;
}

Status ModelDraft::step(std::vector<Lane*>& lanes, const Clock& clock, bool in_pass) {
  const TimePoint begin = clock.now();
  rows_.clear();
  std::size_t reading_left = kReadAtOnce;
  std::erase_if(lanes, [&](Lane* lane) { return !add_rows(*lane, reading_left); });
  if (lanes.empty()) return {};
  OUTRIDER_RETURN_IF_ERROR(model_.forward(rows_, output_));
  OUTRIDER_RETURN_IF_ERROR(check_logits(rows_, output_));
  std::size_t row = 0;
  for (Lane* const lane : lanes) {
    lane->tried = drafts_;
    if (lane->chain.empty()) {  // it has read
      const bool read_all = !lane->reads;
      Slot last = kRootSlot;
      for (const Row& one : rows_) {
        if (one.cache == lane->lease.cache.get()) last = one.slot;
      }
      lane->lease.cache->slots().commit(last);
      pool_.share(lane->lease, lane->session->tree().text(), clock.now());
      if (!read_all) continue;
    }
    grow(*lane, row++, in_pass);
  }
  const Duration took = clock.now() - begin;
  compute_ += took;
  // Rows of text that was read would make a step look slow.
  if (rows_.size() <= 2 * lanes.size()) {
    experience_.step_costs.add(lanes.size(), false, took);
    curve_ = experience_.step_costs.curve();
  } else {
    const double row_seconds = to_seconds(took) / static_cast<double>(rows_.size());
    double& lately = experience_.read_row_seconds;
    lately = lately == 0 ? row_seconds : kKeepReading * lately + (1 - kKeepReading) * row_seconds;
  }
  return {};
}

// in_pass: the tree is left alone.
void ModelDraft::grow(Lane& lane, std::size_t row, bool in_pass) {
  const Open& open = lane.session->opened();
  const MirroredTree& tree = lane.session->tree();
  const Position position = tree.end() + static_cast<Position>(lane.chain.size());
  std::vector<TokenId> path;
  for (const Link& link : lane.chain) path.push_back(link.token);
  const std::span<const float> logits =
      lane.session->adjuster().adjust(output_.row(row), path, adjusted_);
  const std::vector<Guess> guesses = guess_next(logits, open.sampling, open.seed, position, 1);
  if (guesses.empty()) {
    lane.chance = 0;
    return;
  }
  const Guess stated = guesses.front();
  Link link{.token = stated.token,
            .stated = stated.confidence,
            .chance = experience_.calibration.right(0, stated.confidence),
            .free = in_pass};
  if (!in_pass) {
    link.covered = covered(lane);
    link.repeats = tree.child(lane.node, stated.token) != kNoNode;
    lane.node = lane.session->add_own(lane.node, {stated.token, link.chance});
    if (lane.node == kNoNode) {
      lane.chance = 0;
      return;
    }
    link.chance = tree.node(lane.node).confidence;
  }
  lane.chance *= double{link.chance};
  lane.chain.push_back(link);
}

}  // namespace outrider
