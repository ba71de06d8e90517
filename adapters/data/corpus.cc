// SPDX-License-Identifier: Apache-2.0
#include "adapters/data/corpus.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "common/base/jsonl.h"

namespace outrider {
namespace {

// How many documents one sequence may choose from: with this many, little of it stays empty.
constexpr std::size_t kWaiting = 64;

Status parse_share(const std::string& text, double& share) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
  if (error != std::errc() || end != text.data() + text.size() || !(share > 0 && share <= 1e6)) {
    return invalid_argument("share '" + text + "' is not a positive number. Remedy: FILE=0.5");
  }
  return {};
}

}  // namespace

Result<Document> make_document(const TurnFormat& format, const std::string& prompt,
                               const std::string& answer, bool answers_only) {
  const auto& [tokenizer, chat] = format;
  const ChatMessage asked{ChatRole::kUser, prompt};
  OUTRIDER_ASSIGN_OR_RETURN(const TokenId end, chat.end_of_turn(tokenizer));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> before,
                            chat.encode_chat(tokenizer, {asked}));
  // Prompt and answer are encoded as one text, as in a chat template: a token may span their
  // border.
  Document document;
  OUTRIDER_ASSIGN_OR_RETURN(
      document.tokens, chat.encode_chat(tokenizer, {asked, {ChatRole::kAssistant, answer}}, false));
  const std::size_t begin = std::min(before.size(), document.tokens.size());
  document.learnt.assign(document.tokens.size(), 1);
  if (answers_only) std::fill_n(document.learnt.begin(), begin, 0);
  // Nothing behind the end of the answer is learnt.
  for (std::size_t i = document.tokens.size(); i > begin && document.tokens[i - 1] != end; --i) {
    document.learnt[i - 1] = 0;
  }
  return document;
}

Result<Source> load_source(const std::string& path_and_share, const TurnFormat& format,
                           bool answers_only) {
  Source source;
  source.answers_only = answers_only;
  const std::size_t equals = path_and_share.rfind('=');
  source.path = path_and_share.substr(0, equals);
  if (equals != std::string::npos) {
    OUTRIDER_RETURN_IF_ERROR(parse_share(path_and_share.substr(equals + 1), source.share));
  }
  const auto add = [&](const Json& line, const std::string& where) -> Status {
    OUTRIDER_ASSIGN_OR_RETURN(const std::string prompt, string_field(line, "prompt", where));
    OUTRIDER_ASSIGN_OR_RETURN(const std::string answer, string_field(line, "answer", where));
    OUTRIDER_ASSIGN_OR_RETURN(Document document,
                              make_document(format, prompt, answer, answers_only));
    source.documents.push_back(std::move(document));
    return {};
  };
  OUTRIDER_RETURN_IF_ERROR(for_each_line(source.path, add));
  if (source.documents.empty()) return data_loss(source.path + " holds no documents");
  return source;
}

Packer::Packer(std::vector<Source> sources, std::uint64_t seed, TokenId pad)
    : sources_(std::move(sources)), cursors_(sources_.size()), random_(seed), pad_(pad) {
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    OUTRIDER_CHECK(!sources_[i].documents.empty());
    cursors_[i].order.resize(sources_[i].documents.size());
    for (std::uint32_t j = 0; j < cursors_[i].order.size(); ++j) cursors_[i].order[j] = j;
    shuffle(i);
  }
}

void Packer::shuffle(std::size_t source) {
  random_.shuffle(cursors_[source].order);
  cursors_[source].at = 0;
}

const Document& Packer::draw() {
  std::size_t chosen = 0;
  for (std::size_t i = 1; i < cursors_.size(); ++i) {
    if (cursors_[i].tokens_per_share < cursors_[chosen].tokens_per_share) chosen = i;
  }
  Cursor& cursor = cursors_[chosen];
  if (cursor.at == cursor.order.size()) shuffle(chosen);
  const Document& document = sources_[chosen].documents[cursor.order[cursor.at++]];
  cursor.tokens_per_share += static_cast<double>(document.tokens.size()) / sources_[chosen].share;
  return document;
}

Sequence Packer::next(std::int64_t length) {
  std::size_t room = static_cast<std::size_t>(length) + 1;
  std::vector<const Document*> chosen;
  while (true) {
    while (waiting_.size() < kWaiting) waiting_.push_back(&draw());
    // The document that has waited longest goes first, then the longest that fits.
    auto best = waiting_.end();
    if (chosen.empty()) {
      best = waiting_.begin();
    } else {
      for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
        if ((*it)->tokens.size() > room) continue;
        if (best == waiting_.end() || (*it)->tokens.size() > (*best)->tokens.size()) best = it;
      }
    }
    if (best == waiting_.end()) break;
    chosen.push_back(*best);
    room -= std::min(room, (*best)->tokens.size());
    waiting_.erase(best);
  }
  random_.shuffle(chosen);
  Sequence sequence;
  for (const Document* document : chosen) {
    const auto start = static_cast<std::int64_t>(sequence.tokens.size());
    sequence.starts.resize(sequence.tokens.size() + document->tokens.size(), start);
    sequence.tokens.insert(sequence.tokens.end(), document->tokens.begin(), document->tokens.end());
    sequence.learnt.insert(sequence.learnt.end(), document->learnt.begin(), document->learnt.end());
  }
  const auto padding = static_cast<std::int64_t>(sequence.tokens.size());
  sequence.tokens.resize(static_cast<std::size_t>(length) + 1, pad_);
  sequence.learnt.resize(static_cast<std::size_t>(length) + 1, 0);
  sequence.starts.resize(static_cast<std::size_t>(length) + 1, padding);
  return sequence;
}

}  // namespace outrider
