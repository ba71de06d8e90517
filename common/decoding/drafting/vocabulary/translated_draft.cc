// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/drafting/vocabulary/translated_draft.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "common/engine/model/cell_values.h"
#include "common/engine/model/row_check.h"
#include "common/engine/text/pipeline/decoder.h"

namespace outrider {
namespace {

using TokenPages = CellValues<TokenId>;

constexpr TokenId kNoToken = -1;
// Rows of the draft beyond its text. When they are used up, all branches are forgotten.
constexpr std::int32_t kBranchRows = 2048;
// A context in the target's tokens has at most so many of the draft's for each, or it ends there.
constexpr Position kDraftsOfToken = 4;
// Rows of one pass over text that was not drafted here.
constexpr std::size_t kReadRows = 64;
constexpr std::size_t kShortPath = 8;
// Bytes of a word.
constexpr std::size_t kMaxWordBytes = 64;

Position context_of(const ModelInfo& draft, Position context) {
  return context > 0 ? std::min(draft.max_positions, kDraftsOfToken * context)
                     : draft.max_positions;
}

// Whether this byte begins another word. Tokenizers cut before the space of a word; a text without
// spaces is cut between characters.
bool begins_word(const std::string& word, char next) {
  if (word.empty()) return false;
  const bool is_character = (static_cast<unsigned char>(next) & 0xC0) != 0x80;
  const bool after_space = std::string_view(" \n\t\r").find(word.back()) != std::string_view::npos;
  return (next == ' ' && !after_space) || (word.size() >= kMaxWordBytes && is_character);
}

// A number for chances that rounding has made 0 or less, too.
float log_of(double chance) {
  return static_cast<float>(std::log(std::max(chance, 1e-12)));
}

}  // namespace

Result<std::unique_ptr<TranslatedDraft>> TranslatedDraft::create(std::unique_ptr<Model> draft,
                                                                 Tokenizer tokenizer,
                                                                 const Tokenizer& target,
                                                                 Position context) {
  OUTRIDER_RETURN_IF_ERROR(check_keeps_bytes(tokenizer, draft->info().name));
  const Position most = context_of(draft->info(), context);
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<KvCache> cache,
                            draft->new_cache(static_cast<std::int32_t>(std::min<Position>(
                                most + kBranchRows, std::numeric_limits<std::int32_t>::max()))));
  return std::unique_ptr<TranslatedDraft>(
      new TranslatedDraft(std::move(draft), std::move(tokenizer), target, std::move(cache)));
}

TranslatedDraft::TranslatedDraft(std::unique_ptr<Model> draft, Tokenizer tokenizer,
                                 const Tokenizer& target, std::unique_ptr<KvCache> cache)
    : draft_(std::move(draft)),
      draft_tokenizer_(std::move(tokenizer)),
      draft_words_(draft_tokenizer_),
      target_words_(target),
      info_(draft_->info()),
      cache_(std::move(cache)),
      root_(std::make_unique<Node>()) {
  info_.vocab_size = target.vocab_size();
  info_.arithmetic_id += target.content_hash();
  info_.kv_bytes_per_position = 0;
  info_.most_kv_pages = 0;
  info_.stop_ids.clear();
}

Result<std::shared_ptr<KvPages>> TranslatedDraft::new_pages(std::int32_t count) {
  return std::shared_ptr<KvPages>(std::make_shared<TokenPages>(this, count));
}

// The likeliest tokens of a row of logits, of which one is above -infinity. A damaged model's may
// be no numbers: these are no guesses.
std::vector<TranslatedDraft::Candidate> TranslatedDraft::likeliest(std::span<const float> logits) {
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [logits](TokenId id) {
    const float value = logits[static_cast<std::size_t>(id)];
    return std::isnan(value) ? -std::numeric_limits<float>::infinity() : value;
  };
  const auto count = static_cast<std::ptrdiff_t>(std::min(kMaxGuesses, logits.size()));
  std::ranges::partial_sort(order, order.begin() + count, std::ranges::greater{}, logit);
  const float most = logit(order.front());
  double sum = 0;
  for (const TokenId id : order) sum += std::exp(logit(id) - most);
  std::vector<Candidate> candidates;
  for (const TokenId id : std::span(order).first(static_cast<std::size_t>(count))) {
    candidates.push_back({id, std::exp(logit(id) - most) / sum});
  }
  return candidates;
}

// --- tokens across ------------------------------------------------------------------------------

void TranslatedDraft::end_word(Reading& reading) const {
  const std::vector<TokenId> tokens = draft_words_.tokens_of(reading.word);
  reading.drafts.insert(reading.drafts.end(), tokens.begin(), tokens.end());
  reading.word.clear();
}

// A token that has no text, as padding has none, is left out.
void TranslatedDraft::read(TokenId target, Reading& reading) const {
  const Tokenizer& tokenizer = target_words_.tokenizer();
  if (!tokenizer.contains(target)) return;
  const std::optional<TokenId> role =
      tokenizer.is_special(target) ? same_role(tokenizer, target, draft_tokenizer_) : std::nullopt;
  if (role) {
    end_word(reading);
    reading.drafts.push_back(*role);
    return;
  }
  for (const char byte : tokenizer.decoder().bytes(target)) {
    if (begins_word(reading.word, byte)) end_word(reading);
    reading.word += byte;
  }
}

// Empty: it has no text, as special tokens and padding have none.
std::string_view TranslatedDraft::bytes_of(TokenId draft) const {
  if (!draft_tokenizer_.contains(draft) || draft_tokenizer_.is_special(draft)) return {};
  return draft_tokenizer_.decoder().bytes(draft);
}

// The target's first token of the draft's.
TokenId TranslatedDraft::target_of(TokenId draft) {
  const auto [found, is_new] = target_by_draft_.try_emplace(draft, kNoToken);
  if (!is_new || !draft_tokenizer_.contains(draft)) return found->second;
  if (draft_tokenizer_.is_special(draft)) {
    found->second =
        same_role(draft_tokenizer_, draft, target_words_.tokenizer()).value_or(kNoToken);
  } else {
    found->second = target_behind(std::string(bytes_of(draft)), 0);
  }
  return found->second;
}

// The target's token that begins at this byte of a word and what follows.
TokenId TranslatedDraft::target_behind(const std::string& text, std::size_t begin) const {
  std::size_t end = 0;
  for (const TokenId token : target_words_.tokens_of(text)) {
    if (end == begin) return token;
    end += target_words_.tokenizer().decoder().bytes(token).size();
  }
  // The target has cut the word otherwise.
  const std::vector<TokenId> rest = target_words_.tokens_of(text.substr(begin));
  return rest.empty() ? kNoToken : rest.front();
}

// --- the draft's cache follows -------------------------------------------------------------------

void TranslatedDraft::follow_text(const KvCache& cache) {
  auto& pages = static_cast<TokenPages&>(cache.pages());
  const auto end = static_cast<std::size_t>(cache.slots().committed());
  const auto token_at = [&](std::size_t position) {
    return pages.at(cache.slots().cell(static_cast<Slot>(position)));
  };
  std::size_t same = 0;
  while (same < std::min(end, text_.size()) && text_[same] == token_at(same)) ++same;
  if (same < text_.size()) cut_text(same);
  for (std::size_t at = same; at < end; ++at) {
    text_.push_back(token_at(at));
    read(text_.back(), reading_);
    ends_.emplace_back(reading_.drafts.size(), reading_.word);
  }
  commit_known();
}

// tokens: of the target.
void TranslatedDraft::cut_text(std::size_t tokens) {
  text_.resize(tokens);
  ends_.resize(tokens);
  reading_.drafts.resize(ends_.empty() ? 0 : ends_.back().first);
  reading_.word = ends_.empty() ? std::string() : ends_.back().second;
  const std::ptrdiff_t drafts = std::ssize(reading_.drafts);
  if (drafts >= cache_->slots().committed()) return;
  cache_->slots().truncate(drafts);
  root_ = std::make_unique<Node>();
}

// Commits the rows of the text that were run as branches.
void TranslatedDraft::commit_known() {
  KvSlots& slots = cache_->slots();
  std::unique_ptr<Node> last;
  for (auto at = static_cast<std::size_t>(slots.committed()); at < reading_.drafts.size(); ++at) {
    auto& children = (last != nullptr ? last : root_)->children;
    const auto found = children.find(reading_.drafts[at]);
    if (found == children.end()) break;
    last = std::exchange(found->second, nullptr);
  }
  if (last == nullptr) return;
  slots.commit(last->slot);
  root_ = std::move(last);
}

// Runs what is committed in the target's tokens and was no branch, or is none any more.
Status TranslatedDraft::read_text(PassOutput& out) {
  while (cache_->slots().committed() < std::ssize(reading_.drafts)) {
    forget_branches();
    const auto rest =
        std::span(reading_.drafts).subspan(static_cast<std::size_t>(cache_->slots().committed()));
    path(root_.get(), rest.first(std::min(rest.size(), kReadRows)), true);
    OUTRIDER_RETURN_IF_ERROR(run_fresh(out));
    commit_known();
  }
  return {};
}

void TranslatedDraft::forget_branches() {
  cache_->slots().release_all_uncommitted();
  root_->children.clear();
  fresh_.clear();
}

// --- branches ------------------------------------------------------------------------------------

Position TranslatedDraft::position_behind(const Node& node) const {
  const KvSlots& slots = cache_->slots();
  return &node == root_.get() ? slots.committed() : slots.position(node.slot) + 1;
}

// Whether `rows` more rows fit, the first of them at this position.
bool TranslatedDraft::has_room(Position position, std::size_t rows) const {
  const KvSlots& slots = cache_->slots();
  return position + static_cast<Position>(rows) <= draft_->info().max_positions &&
         static_cast<std::size_t>(slots.in_use()) + fresh_.size() + rows <=
             static_cast<std::size_t>(slots.capacity());
}

TranslatedDraft::Node* TranslatedDraft::child(Node& parent, TokenId token, bool wants_logits) {
  std::unique_ptr<Node>& node = parent.children[token];
  if (node == nullptr) {
    node = std::make_unique<Node>();
    fresh_.push_back({node.get(), &parent, token, wants_logits});
  } else if (wants_logits) {
    const auto found = std::ranges::find(fresh_, node.get(), &Fresh::node);
    if (found != fresh_.end()) found->wants_logits = true;
  }
  return node.get();
}

// wants_logits: of the last rows. Branches may begin at each.
TranslatedDraft::Node* TranslatedDraft::path(Node* from, std::span<const TokenId> tokens,
                                             bool wants_logits) {
  if (!has_room(position_behind(*from), tokens.size())) return nullptr;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    from = child(*from, tokens[i], wants_logits && i + kShortPath >= tokens.size());
  }
  return from;
}

// From the end of the committed text to the row.
TranslatedDraft::Reading TranslatedDraft::uncommitted(const Row& row) const {
  auto& pages = static_cast<TokenPages&>(row.cache->pages());
  const KvSlots& slots = row.cache->slots();
  std::vector<TokenId> tokens;
  for (Slot slot = row.slot; slot != kRootSlot; slot = slots.parent(slot)) {
    tokens.push_back(pages.at(slots.cell(slot)));
  }
  Reading reading{.word = reading_.word};
  for (auto token = tokens.rbegin(); token != tokens.rend(); ++token) read(*token, reading);
  return reading;
}

// By row that wants logits.
std::vector<TranslatedDraft::Walk> TranslatedDraft::walks_of(std::span<const Row> rows) {
  std::vector<Walk> walks;
  for (const Row& row : rows) {
    const Reading reading = uncommitted(row);
    Node* const end = path(root_.get(), reading.drafts, row.wants_logits);
    if (!row.wants_logits) continue;
    const bool inside = !reading.word.empty();
    walks.push_back({.word = reading.word, .begin = end, .at = end, .inside = inside, .text = {}});
  }
  return walks;
}

Status TranslatedDraft::run_fresh(PassOutput& out) {
  if (fresh_.empty()) return {};
  rows_.clear();
  for (const Fresh& fresh : fresh_) {
    const Slot parent = fresh.parent == root_.get() ? kRootSlot : fresh.parent->slot;
    OUTRIDER_ASSIGN_OR_RETURN(fresh.node->slot, cache_->slots().append(parent));
    rows_.push_back({cache_.get(), fresh.node->slot, fresh.token, fresh.wants_logits});
  }
  output_.abandoned = out.abandoned;
  output_.waited = {};
  const Status passed = draft_->forward(rows_, output_);
  out.waited += output_.waited;
  OUTRIDER_RETURN_IF_ERROR(passed);
  OUTRIDER_RETURN_IF_ERROR(check_logits(rows_, output_));
  std::size_t wanted = 0;
  for (const Fresh& fresh : fresh_) {
    if (!fresh.wants_logits) continue;
    if (output_.has_row(wanted)) fresh.node->next = likeliest(output_.row(wanted));
    ++wanted;
  }
  fresh_.clear();
  return {};
}

// The likeliest guess at the walk's end; inside a word one that fits it. Null: there is none.
const TranslatedDraft::Candidate* TranslatedDraft::best_of(const Walk& walk) const {
  const auto fits = [&](const Candidate& one) {
    const std::string_view bytes = bytes_of(one.token);
    return !bytes.empty() && (bytes.starts_with(walk.word) || walk.word.starts_with(bytes));
  };
  const std::vector<Candidate>& next = walk.at->next;
  const auto best = walk.inside ? std::ranges::find_if(next, fits) : next.begin();
  return best == next.end() ? nullptr : &*best;
}

// Where the guesses do not go beyond the word's beginning, it is read as it is.
void TranslatedDraft::enter(Walk& walk) {
  if (walk.at == nullptr || !walk.inside) return;
  const Candidate* const best = best_of(walk);
  if (best != nullptr && bytes_of(best->token).size() > walk.word.size()) return;
  walk.inside = false;
  walk.text = walk.word;
  walk.begin = walk.at = path(walk.at, draft_words_.tokens_of(walk.word), true);
}

// Takes the likeliest guess, and its row if more of the text may change the target's next token.
void TranslatedDraft::go_on(Walk& walk, bool may_run) {
  if (walk.at == nullptr) return;
  const Candidate* const best = best_of(walk);
  Node* const at = std::exchange(walk.at, nullptr);
  if (best == nullptr || bytes_of(best->token).empty()) return;
  walk.text += bytes_of(best->token);
  const double before = walk.ends.empty() ? 1 : walk.ends.back().second;
  walk.ends.emplace_back(walk.text.size(), before * best->chance);
  const std::string_view behind = std::string_view(walk.text).substr(walk.word.size());
  if (may_run && target_words_.has_longer(behind) && has_room(position_behind(*at), 1)) {
    walk.at = child(*at, best->token, true);
  }
}

Status TranslatedDraft::run_branches(std::span<const Row> rows, PassOutput& out) {
  if (cache_->slots().in_use() - cache_->slots().committed() > kBranchRows / 2) forget_branches();
  std::vector<Walk> walks = walks_of(rows);
  OUTRIDER_RETURN_IF_ERROR(run_fresh(out));
  for (Walk& walk : walks) enter(walk);
  for (int step = 0; step <= kMaxAhead; ++step) {
    OUTRIDER_RETURN_IF_ERROR(run_fresh(out));
    for (Walk& walk : walks) {
      go_on(walk, step < kMaxAhead);
    }
  }
  for (const Walk& walk : walks) write_logits(walk, out);
  return {};
}

Status TranslatedDraft::forward(std::span<const Row> rows, PassOutput& out) {
  OUTRIDER_RETURN_IF_ERROR(check_rows(rows, info_, this));
  out.vocab_size = info_.vocab_size;
  out.row_logits = nullptr;
  out.logits.clear();
  out.places.clear();
  if (rows.empty()) return {};
  for (const Row& row : rows) {
    if (row.cache != rows.front().cache) {
      return unimplemented("a draft of another vocabulary drafts one sequence at a time");
    }
    static_cast<TokenPages&>(row.cache->pages()).of(row) = row.token;
  }
  follow_text(*rows.front().cache);
  if (std::ssize(reading_.drafts) > draft_->info().max_positions) {
    out.places.assign(std::ranges::count_if(rows, &Row::wants_logits), -1);
    return {};
  }
  Status ran = read_text(out);
  if (ran.ok()) ran = run_branches(rows, out);
  if (!ran.ok()) forget_branches();  // rows of a pass that ended early hold nothing
  return ran;
}

// --- guesses back --------------------------------------------------------------------------------

// The chances of guesses that begin with the word so far, among all that fit it.
std::unordered_map<TokenId, double> TranslatedDraft::chances_inside(const Walk& walk) const {
  std::unordered_map<TokenId, double> chances;
  double fitting = 0;
  for (const auto& [token, chance] : walk.begin->next) {
    const std::string_view bytes = bytes_of(token);
    if (bytes.empty()) continue;
    const bool goes_on = bytes.size() > walk.word.size() && bytes.starts_with(walk.word);
    if (goes_on || walk.word.starts_with(bytes)) fitting += chance;
    if (!goes_on) continue;
    const TokenId target = target_behind(std::string(bytes), walk.word.size());
    if (target != kNoToken) chances[target] += chance;
  }
  for (auto& [token, chance] : chances) chance /= fitting;
  return chances;
}

// The chances by token of the target.
std::unordered_map<TokenId, double> TranslatedDraft::chances_of(const Walk& walk) {
  if (walk.begin == nullptr || walk.begin->next.empty()) return {};
  if (walk.inside) return chances_inside(walk);
  std::unordered_map<TokenId, double> chances;
  for (const auto& [token, chance] : walk.begin->next) {
    if (const TokenId target = target_of(token); target != kNoToken) chances[target] += chance;
  }
  if (walk.ends.empty()) return chances;
  const TokenId alone = target_of(walk.begin->next.front().token);
  const TokenId first = target_behind(walk.text, walk.word.size());
  if (first == kNoToken || first == alone) return chances;
  const std::size_t end =
      walk.word.size() + target_words_.tokenizer().decoder().bytes(first).size();
  const auto reached =
      std::ranges::find_if(walk.ends, [end](const auto& one) { return one.first >= end; });
  if (alone != kNoToken) chances[alone] -= reached->second;
  chances[first] += reached->second;
  return chances;
}

void TranslatedDraft::write_logits(const Walk& walk, PassOutput& out) {
  const std::unordered_map<TokenId, double> chances = chances_of(walk);
  const auto vocab = static_cast<std::size_t>(info_.vocab_size);
  out.places.push_back(chances.empty() ? -1 : static_cast<std::int32_t>(out.logits.size() / vocab));
  if (chances.empty()) return;
  double rest = 1;
  for (const auto& [token, chance] : chances) rest -= chance;
  const auto others = static_cast<double>(std::max<std::size_t>(1, vocab - chances.size()));
  const std::size_t begin = out.logits.size();
  out.logits.resize(begin + vocab, log_of(rest / others));
  for (const auto& [token, chance] : chances) {
    out.logits[begin + static_cast<std::size_t>(token)] = log_of(chance);
  }
}

}  // namespace outrider
