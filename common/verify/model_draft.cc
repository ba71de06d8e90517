// SPDX-License-Identifier: Apache-2.0
#include "common/verify/model_draft.h"

#include <algorithm>
#include <utility>

#include "common/model/row_check.h"
#include "common/verify/session.h"

namespace outrider {
namespace {

constexpr std::size_t kLongestChain = 16;
// Of text that the draft reads before one pass, all sessions together: others wait meanwhile.
constexpr std::size_t kReadAtOnce = 64;
// Every so many times a short chain is drafted whatever it costs, so that its times stay known.
constexpr std::uint64_t kDraftsPerTrial = 64;
constexpr std::size_t kTrialChain = 4;
// A chain that stands with less chance is never worth a step.
constexpr double kMinChainChance = 0.1;
constexpr double kKeepTypical = 0.98;
constexpr double kKeepReading = 0.9;
// Tokens that an answer is taken to have left, unless it ends sooner.
constexpr Position kTypicalAnswer = 128;

}  // namespace

ModelDraft::ModelDraft(Model& model, const GuessCalibration& calibration, std::int64_t max_bytes)
    : model_(model), max_bytes_(max_bytes), calibration_(calibration) {}

std::int64_t ModelDraft::bytes() const {
  std::int64_t positions = 0;
  for (const auto& [stream, lane] : lanes_) positions += lane.cache->slots().in_use();
  return positions * model_.info().kv_bytes_per_position;
}

// The lanes that were not used for the longest time go first. False: it does not fit.
bool ModelDraft::make_room(const Client& client) {
  const auto text = static_cast<std::int64_t>(client.session->tree().end());
  while (max_bytes_ > 0 && bytes() + text * model_.info().kv_bytes_per_position > max_bytes_) {
    const auto oldest =
        std::ranges::min_element(lanes_, {}, [](const auto& entry) { return entry.second.used; });
    if (oldest == lanes_.end() || oldest->second.used == drafts_) return false;
    lanes_.erase(oldest);
  }
  return true;
}

// Null: there is no memory for it.
ModelDraft::Lane* ModelDraft::lane_of(const Client& client) {
  auto at = lanes_.find(client.stream);
  if (at == lanes_.end()) {
    if (!make_room(client)) return nullptr;
    const Position most =
        std::min(client.session->opened().end_position, model_.info().max_positions);
    const auto capacity = static_cast<std::int32_t>(most + kLongestChain + 1);
    Result<std::unique_ptr<KvCache>> cache = model_.new_cache(capacity);
    if (!cache.ok()) return nullptr;
    at = lanes_.emplace(client.stream, Lane{.cache = *std::move(cache)}).first;
  }
  Lane& lane = at->second;
  lane.session = client.session;
  lane.weight = client.weight;
  lane.used = drafts_;
  return &lane;
}

// What became of its last chain: learns from it, and keeps the rows that became text.
void ModelDraft::settle(Lane& lane) {
  const std::span<const TokenId> text = lane.session->tree().text();
  KvSlots& slots = lane.cache->slots();
  Slot stands = kRootSlot;
  for (std::size_t i = 0; i < lane.chain.size() && lane.base + i < text.size(); ++i) {
    const Link& link = lane.chain[i];
    const bool right = link.token == text[lane.base + i];
    calibration_.observe(0, link.stated, right);
    if (!right) break;
    // The last token's row is run again: it says what follows.
    if (link.slot != kRootSlot && lane.base + i + 1 < text.size()) stands = link.slot;
  }
  slots.commit(stands);
  slots.release_all_uncommitted();
  lane.chain.clear();
  lane.base = text.size();
  lane.node = kRoot;
  lane.chance = 1;
  lane.reads = true;
  const auto unread = text.subspan(static_cast<std::size_t>(slots.committed()));
  lane.foreign = std::ranges::any_of(
      unread, [this](TokenId token) { return token >= model_.info().vocab_size; });
}

// Leaves those lanes for which a step is worth its time, the best first. False: for none it is.
bool ModelDraft::pays(std::vector<Lane*>& lanes, const Worth& worth) const {
  std::ranges::stable_sort(lanes, std::greater{},
                           [](const Lane* lane) { return lane->weight * lane->chance; });
  double gain = 0, best = 0;
  std::size_t most = 0;
  for (std::size_t n = 1; n <= lanes.size(); ++n) {
    gain += lanes[n - 1]->weight * lanes[n - 1]->chance * typical_;
    const double seconds = curve_.seconds(n) + static_cast<double>(n) * worth.row_seconds;
    const double surplus = gain - worth.price * seconds;
    if (surplus <= best || lanes[n - 1]->chance < kMinChainChance) continue;
    best = surplus;
    most = n;
  }
  lanes.resize(most);
  return most > 0;
}

// A text that the draft has not read costs all who wait its reading. That pays if the answer is
// long enough: by the time that a token takes less with the best length of chain.
bool ModelDraft::pays_to_read(const Client& client, const Worth& worth) const {
  const auto at = lanes_.find(client.stream);
  const Position end = client.session->tree().end();
  const Position read = at == lanes_.end() ? 0 : at->second.cache->slots().committed();
  if (end - read <= static_cast<Position>(kLongestChain) || worth.pass_seconds <= 0) return true;
  const double step = curve_.seconds(worth.sessions);
  const double row = static_cast<double>(worth.sessions) * worth.row_seconds;
  double tokens = 1, chance = 1, least = worth.pass_seconds;
  for (std::size_t length = 1; length <= kLongestChain; ++length) {
    chance *= typical_;
    tokens += chance;
    const double seconds = worth.pass_seconds + static_cast<double>(length) * (step + row);
    least = std::min(least, seconds / tokens);
  }
  const Position left = client.session->opened().end_position - end;
  const double saved =
      (worth.pass_seconds - least) * static_cast<double>(std::min(left, kTypicalAnswer));
  const double reading = static_cast<double>(end - read) * read_row_seconds_;
  return saved > reading * static_cast<double>(worth.sessions);
}

Status ModelDraft::draft(std::span<const Client> clients, const Worth& worth, const Clock& clock) {
  ++drafts_;
  std::vector<Lane*> lanes;
  for (const Client& client : clients) {
    // A text beyond the draft's context goes on without it.
    if (client.session->tree().end() >= model_.info().max_positions) continue;
    if (!pays_to_read(client, worth)) continue;
    Lane* const lane = lane_of(client);
    if (lane == nullptr || lane->foreign) continue;
    // Its chain is there already: it did not ride meanwhile.
    if (lane->base == client.session->tree().text().size() && !lane->reads) continue;
    settle(*lane);
    if (!lane->foreign) lanes.push_back(lane);
  }
  Worth asked = worth;
  const bool trial = drafts_ % kDraftsPerTrial == 0;
  if (trial) asked.price = 0;
  const std::size_t most = trial ? kTrialChain : kLongestChain;
  for (std::size_t length = 0; length < most && pays(lanes, asked); ++length) {
    OUTRIDER_RETURN_IF_ERROR(step(lanes, clock));
    std::erase_if(lanes, [&](const Lane* lane) {
      return lane->reads || lane->session->tree().end() + static_cast<Position>(length) + 2 >
                                model_.info().max_positions;
    });
  }
  return {};
}

// What the lane wants of the next step: text that was not read, else the end of its chain.
Status ModelDraft::add_rows(Lane& lane, std::size_t& reading_left) {
  KvSlots& slots = lane.cache->slots();
  if (!lane.reads) {
    Link& end = lane.chain.back();
    const Slot parent = lane.chain.size() > 1 ? lane.chain[lane.chain.size() - 2].slot : kRootSlot;
    OUTRIDER_ASSIGN_OR_RETURN(end.slot, slots.append(parent));
    rows_.push_back({lane.cache.get(), end.slot, end.token, true});
    return {};
  }
  const std::span<const TokenId> text = lane.session->tree().text();
  const auto begin = static_cast<std::size_t>(slots.committed());
  // Some of it always, so that every text is read in the end.
  const std::size_t count = std::min(text.size() - begin, std::max<std::size_t>(reading_left, 1));
  reading_left -= std::min(reading_left, count);
  Slot above = kRootSlot;
  for (const TokenId token : text.subspan(begin, count)) {
    OUTRIDER_ASSIGN_OR_RETURN(above, slots.append(above));
    rows_.push_back({lane.cache.get(), above, token, false});
  }
  lane.reads = begin + count < text.size();
  rows_.back().wants_logits = !lane.reads;
  return {};
}

Status ModelDraft::step(std::span<Lane* const> lanes, const Clock& clock) {
  const TimePoint begin = clock.now();
  rows_.clear();
  std::size_t reading_left = kReadAtOnce;
  for (Lane* const lane : lanes) OUTRIDER_RETURN_IF_ERROR(add_rows(*lane, reading_left));
  OUTRIDER_RETURN_IF_ERROR(model_.forward(rows_, output_));
  OUTRIDER_RETURN_IF_ERROR(check_logits(rows_, output_));
  std::size_t row = 0;
  for (Lane* const lane : lanes) {
    if (lane->chain.empty()) {  // it has read
      const bool read_all = !lane->reads;
      Slot last = kRootSlot;
      for (const Row& one : rows_) {
        if (one.cache == lane->cache.get()) last = one.slot;
      }
      lane->cache->slots().commit(last);
      if (!read_all) continue;
    }
    grow(*lane, row++);
  }
  const Duration took = clock.now() - begin;
  compute_ += took;
  // Rows of text that was read would make a step look slow.
  if (rows_.size() <= 2 * lanes.size()) {
    costs_.add(lanes.size(), false, took);
    curve_ = PassCurve(costs_.costs());
  } else {
    const double row_seconds = to_seconds(took) / static_cast<double>(rows_.size());
    read_row_seconds_ = read_row_seconds_ == 0
                            ? row_seconds
                            : kKeepReading * read_row_seconds_ + (1 - kKeepReading) * row_seconds;
  }
  return {};
}

void ModelDraft::grow(Lane& lane, std::size_t row) {
  const Open& open = lane.session->opened();
  const Position position = lane.session->tree().end() + static_cast<Position>(lane.chain.size());
  const std::vector<Guess> guesses =
      guess_next(output_.row(row), open.sampling, open.seed, position, 1);
  if (guesses.empty()) {
    lane.chance = 0;
    return;
  }
  const Guess stated = guesses.front();
  const float chance = calibration_.right(0, stated.confidence);
  lane.node = lane.session->add_own(lane.node, {stated.token, chance});
  if (lane.node == kNoNode) {
    lane.chance = 0;
    return;
  }
  lane.chain.push_back({.token = stated.token, .stated = stated.confidence});
  lane.chance *= double{chance};
  typical_ = kKeepTypical * typical_ + (1 - kKeepTypical) * double{chance};
}

}  // namespace outrider
