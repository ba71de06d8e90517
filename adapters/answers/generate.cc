// SPDX-License-Identifier: Apache-2.0
#include "adapters/answers/generate.h"

#include <algorithm>
#include <memory>

#include "common/conversation/repetition.h"
#include "common/model/row_check.h"
#include "common/sampling/sampling.h"

namespace outrider {
namespace {

// One answer under way.
struct Line {
  std::unique_ptr<KvCache> cache = {};
  std::size_t number = 0;             // of its prompt
  std::vector<TokenId> pending = {};  // tokens whose rows the next pass computes
  std::int64_t left = 0;              // tokens that the answer may still have
};

class Batch final {
 public:
  Batch(Model& model, const std::vector<std::vector<TokenId>>& prompts,
        const GenerateOptions& options)
      : model_(model), prompts_(prompts), options_(options), answers_(prompts.size()) {}

  bool is_done() const { return lines_.empty() && next_ == prompts_.size(); }
  std::int64_t ended() const { return static_cast<std::int64_t>(next_ - lines_.size()); }

  // Fills free places with the next prompts.
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

  // A pass over what is pending, and a token more for each answer.
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
    // Looked at now and then: what repeats itself would run to the end of the context.
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

}  // namespace outrider
