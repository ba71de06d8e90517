// SPDX-License-Identifier: Apache-2.0
#include "adapters/answers/generate.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <sstream>
#include <unordered_set>

#include "common/engine/model/row_check.h"
#include "common/engine/sampling/sampling.h"
#include "common/serving/conversation/repetition.h"

namespace outrider {
namespace {

// One unfinished answer.
struct Line {
  std::unique_ptr<KvCache> cache = {};
  std::size_t number = 0;             // of the answer's prompt
  std::vector<TokenId> pending = {};  // tokens whose rows the next pass computes
  std::int64_t left = 0;              // tokens that the answer may still get
};

class Batch final {
 public:
  Batch(Model& model, const std::vector<std::vector<TokenId>>& prompts,
        const GenerateOptions& options)
      : model_(model), prompts_(prompts), options_(options), answers_(prompts.size()) {}

  bool is_done() const { return lines_.empty() && next_ == prompts_.size(); }
  std::int64_t ended() const { return static_cast<std::int64_t>(next_ - lines_.size()); }

  // Starts the next prompts until the batch is full.
  Status admit() {
    const auto most = static_cast<std::size_t>(options_.batch);
    for (; lines_.size() < most && next_ < prompts_.size(); ++next_) {
      const auto length = std::ssize(prompts_[next_]);
      const std::int64_t room = model_.info().max_positions - length;
      if (length == 0 || room < 1) continue;
      Line line{.number = next_, .pending = prompts_[next_], .left = room};
      line.left = std::min(room, options_.max_tokens);
      OUTRIDER_ASSIGN_OR_RETURN(line.cache,
                                model_.new_cache(static_cast<std::int32_t>(length + line.left)));
      lines_.push_back(std::move(line));
    }
    return {};
  }

  // Runs one pass over the pending tokens, which adds one token to each answer.
  Status step() {
    std::vector<Row> rows;
    for (Line& line : lines_) {
      for (const TokenId token : line.pending) {
        const Slot parent =
            rows.empty() || rows.back().cache != line.cache.get() ? kRootSlot : rows.back().slot;
        OUTRIDER_ASSIGN_OR_RETURN(const Slot slot, line.cache->slots().append(parent));
        rows.push_back({line.cache.get(), slot, token, false});
      }
      rows.back().wants_logits = true;
    }
    OUTRIDER_RETURN_IF_ERROR(model_.forward(rows, out_));
    OUTRIDER_RETURN_IF_ERROR(check_logits(rows, out_));
    std::size_t row = 0;
    for (const Row& each : rows) {
      if (!each.wants_logits) continue;
      each.cache->slots().commit(each.slot);
      take(lines_[row], out_.row(row));
      ++row;
    }
    std::erase_if(lines_, [](const Line& line) { return line.left == 0; });
    return {};
  }

  std::vector<std::vector<TokenId>> take_answers() {
    for (std::vector<TokenId>& answer : answers_) answer.resize(length_before_repetition(answer));
    return std::move(answers_);
  }

 private:
  void take(Line& line, std::span<const float> logits) {
    const SamplingParams sampling{.temperature = options_.temperature};
    const TokenId token =
        choose(logits, sampling, options_.seed + line.number, line.cache->slots().committed());
    std::vector<TokenId>& answer = answers_[line.number];
    if (token == options_.stop) {
      line.left = 0;
      return;
    }
    answer.push_back(token);
    line.pending.assign(1, token);
    --line.left;
    // Checked every 32 tokens: a text that repeats itself would fill the context.
    if (answer.size() % 32 == 0 && length_before_repetition(answer) < answer.size()) line.left = 0;
  }

  Model& model_;
  const std::vector<std::vector<TokenId>>& prompts_;
  const GenerateOptions& options_;
  std::vector<std::vector<TokenId>> answers_;
  std::vector<Line> lines_;
  std::size_t next_ = 0;
  PassOutput out_;
};

constexpr std::ptrdiff_t kFewestWords = 3;

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

bool is_message(const std::string& text) {
  if (text.find("\xef\xbf\xbd") != std::string::npos) return false;  // bytes that are no UTF-8
  std::istringstream words(text);
  return std::distance(std::istream_iterator<std::string>(words), {}) >= kFewestWords;
}

}  // namespace

Result<std::vector<std::vector<TokenId>>> generate(
    Model& model, const std::vector<std::vector<TokenId>>& prompts, const GenerateOptions& options,
    const std::function<void(std::int64_t)>& on_progress) {
  Batch batch(model, prompts, options);
  while (!batch.is_done()) {
    OUTRIDER_RETURN_IF_ERROR(batch.admit());
    if (batch.is_done()) break;
    OUTRIDER_RETURN_IF_ERROR(batch.step());
    on_progress(batch.ended());
  }
  return batch.take_answers();
}

Result<std::vector<TokenId>> opening_of_user_turn(const ChatTemplate& chat,
                                                  const Tokenizer& tokenizer) {
  const auto with = [&](const char* message) {
    return chat.encode_chat(tokenizer, {{ChatRole::kUser, message}});
  };
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<TokenId> ids, with("x"));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> others, with("8"));
  ids.erase(std::ranges::mismatch(ids, others).in1, ids.end());
  return ids;
}

Result<std::vector<std::string>> messages_of(const std::vector<std::vector<TokenId>>& written,
                                             std::int64_t max_tokens, const Tokenizer& tokenizer) {
  std::vector<std::string> messages;
  std::unordered_set<std::string> seen;
  for (const std::vector<TokenId>& ids : written) {
    if (std::ssize(ids) >= max_tokens) continue;
    OUTRIDER_ASSIGN_OR_RETURN(const std::string text, tokenizer.decode(ids));
    std::string message = trimmed(text);
    if (is_message(message) && seen.insert(message).second) messages.push_back(std::move(message));
  }
  return messages;
}

}  // namespace outrider
