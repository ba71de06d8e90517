// SPDX-License-Identifier: Apache-2.0
#include "edge_client/audit/audit.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "common/base/thread_pool.h"
#include "common/engine/model/row_check.h"
#include "common/engine/sampling/row_adjuster.h"
#include "common/engine/sampling/row_digest.h"
#include "common/engine/sampling/sampling.h"

namespace outrider {
namespace {

std::string at(Position position) {
  return "position " + std::to_string(position) + ": ";
}

std::string in_words(const ModelInfo& info) {
  return info.name + ", " + info.dtype + ", keys and values " + info.kv_dtype;
}

std::string level_of(const std::string& model) {
  const std::size_t sign = model.find('@');
  return sign == std::string::npos ? "" : model.substr(sign + 1);
}

// The model that a stretch names by its arithmetic id, which says what its words say.
Result<Model*> model_of(const RecordStretch& stretch, const AuditTarget& target) {
  const auto found = std::ranges::find_if(target.models, [&](const Model* model) {
    return model->info().arithmetic_id == stretch.arithmetic_id;
  });
  if (found == target.models.end()) {
    const std::string level = level_of(stretch.model);
    return data_loss(at(stretch.position) + "decided by " + stretch.model +
                     (stretch.dtype.empty() ? "" : ", " + stretch.dtype) +
                     (stretch.kv_dtype.empty() ? "" : ", keys and values " + stretch.kv_dtype) +
                     " with arithmetic id " + stretch.arithmetic_id + ", and this target is " +
                     in_words(target.models.front()->info()) + " with " +
                     target.models.front()->info().arithmetic_id +
                     (level.empty() ? "" : "; it has no such level " + level) +
                     ". Remedy: the record's model in --target, with --dtype, --kv-dtype and "
                     "--elastic as it was computed");
  }
  const ModelInfo& info = (*found)->info();
  const std::string own_level = level_of(info.name), level = level_of(stretch.model);
  const char* differs = stretch.fingerprint != info.fingerprint                 ? "fingerprint"
                        : !stretch.dtype.empty() && stretch.dtype != info.dtype ? "dtype"
                        : !stretch.kv_dtype.empty() && stretch.kv_dtype != info.kv_dtype
                            ? "kv_dtype"
                        : !level.empty() && level != own_level ? "level"
                                                               : nullptr;
  if (differs == nullptr) return *found;
  return data_loss(at(stretch.position) + "its " + differs + " is not that of its arithmetic id, " +
                   in_words(info));
}

// Prompt and answer, all within the target's vocabulary and context.
Result<std::vector<TokenId>> text_of(const RecordedAnswer& answer, const ModelInfo& info) {
  std::vector<TokenId> text = answer.terms.prompt.value();
  for (const RecordStretch& stretch : answer.stretches) {
    text.insert(text.end(), stretch.ids->begin(), stretch.ids->end());
  }
  if (std::ssize(text) > info.max_positions) {
    return data_loss("it has " + std::to_string(text.size()) +
                     " positions, and this target holds " + std::to_string(info.max_positions));
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] >= 0 && text[i] < info.vocab_size) continue;
    return data_loss(at(static_cast<Position>(i)) + "token " + std::to_string(text[i]) +
                     " is outside the target's vocabulary");
  }
  return text;
}

// All that end the answer, rising.
std::vector<TokenId> stops_of(const RecordTerms& terms, const ModelInfo& info) {
  std::vector<TokenId> stops = terms.stop_ids;
  if (!terms.ignore_target_stops) {
    stops.insert(stops.end(), info.stop_ids.begin(), info.stop_ids.end());
  }
  std::ranges::sort(stops);
  stops.erase(std::unique(stops.begin(), stops.end()), stops.end());
  return stops;
}

// That the answer ends where it must.
Status check_end(const RecordedAnswer& answer, std::span<const TokenId> text,
                 std::span<const TokenId> stops) {
  const auto stops_at = [&](std::size_t i) {
    return std::binary_search(stops.begin(), stops.end(), text[i]);
  };
  const auto begin = static_cast<std::size_t>(answer.terms.prompt_tokens);
  for (std::size_t i = begin; i + 1 < text.size(); ++i) {
    if (stops_at(i)) {
      return data_loss(at(static_cast<Position>(i + 1)) + "the answer goes on behind stop token " +
                       std::to_string(text[i]));
    }
  }
  const std::string ending = answer.ending();
  const auto end = static_cast<Position>(text.size());
  const bool fits = ending == "stop_token" ? stops_at(text.size() - 1)
                    : ending == "length"   ? end == answer.terms.end_position
                                           : true;
  if (fits) return {};
  return data_loss(at(end) + "the record ends with " + ending + ", and the answer does not");
}

// Rows of one model, from position to position, against what a part of the record says.
class Reading final {
 public:
  Reading(std::span<const TokenId> text, const TokenChoice& choice, Model& model)
      : text_(text),
        choice_(choice),
        model_(model),
        adjuster_(choice.settings, choice.answer_begin, choice.stop_ids) {}

  // The tokens at these positions. stretches: those that have them.
  Status compare(Position begin, Position end, std::span<const RecordStretch> stretches,
                 AuditCounts& counts) {
    OUTRIDER_ASSIGN_OR_RETURN(cache_, model_.new_cache(static_cast<std::int32_t>(end)));
    for (Position first = 0; first < end - 1;) {
      const Position last = std::min<Position>(first + kAuditedRows, end - 1);
      OUTRIDER_RETURN_IF_ERROR(read(first, last, begin));
      OUTRIDER_RETURN_IF_ERROR(
          compare_rows(std::max(first + 1, begin), last + 1, stretches, counts));
      first = last;
    }
    return {};
  }

 private:
  struct Found {
    TokenId token = 0;
    std::uint64_t digest = 0;
  };

  // The rows of the text's tokens [first, last), of which those behind which tokens from `begin` on
  // were chosen are kept in found_.
  Status read(Position first, Position last, Position begin) {
    rows_.clear();
    KvSlots& slots = cache_->slots();
    Slot above = kRootSlot;
    for (Position i = first; i < last; ++i) {
      OUTRIDER_ASSIGN_OR_RETURN(above, slots.append(above));
      rows_.push_back({.cache = cache_.get(),
                       .slot = above,
                       .token = text_[static_cast<std::size_t>(i)],
                       .wants_logits = i + 1 >= begin});
    }
    OUTRIDER_RETURN_IF_ERROR(model_.forward(rows_, out_));
    OUTRIDER_RETURN_IF_ERROR(check_logits(rows_, out_));
    slots.commit(above);
    found_.clear();
    const auto wanted =
        static_cast<std::size_t>(std::max<Position>(0, last - std::max(first, begin - 1)));
    found_.resize(wanted);
    const Position first_wanted = last - static_cast<Position>(wanted);
    // A path is of the answer alone, so the token of the first row, perhaps the prompt's, is text.
    const Position committed = std::min(first_wanted + 1, last);
    append(first, committed);
    choose_all(first_wanted);
    append(committed, last);
    return {};
  }

  void append(Position begin, Position end) {
    adjuster_.append(
        text_.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
  }

  // Behind the rows of the text from `first` on, side by side.
  void choose_all(Position first) {
    const auto choose_some = [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> adjusted;
      for (std::int64_t i = begin; i < end; ++i) {
        const std::span<const float> logits = out_.row(static_cast<std::size_t>(i));
        const std::span<const TokenId> path =
            text_.subspan(static_cast<std::size_t>(first + 1), static_cast<std::size_t>(i));
        const Position position = first + i + 1;
        Found& found = found_[static_cast<std::size_t>(i)];
        found.token = choose(adjuster_.adjust(logits, path, adjusted), choice_.sampling,
                             choice_.seed, position);
        if (has_digest(position)) found.digest = row_digest(logits);
      }
    };
    if (out_.threads == nullptr) return choose_some(0, std::ssize(found_));
    out_.threads->parallel_for(std::ssize(found_), 1, choose_some);
  }

  // The tokens at positions [begin, end), whose rows are in found_.
  Status compare_rows(Position begin, Position end, std::span<const RecordStretch> stretches,
                      AuditCounts& counts) {
    for (Position position = begin; position < end; ++position) {
      const Found& found = found_[static_cast<std::size_t>(position - begin)];
      const auto stretch = std::ranges::find_if(stretches, [&](const RecordStretch& one) {
        return position < one.position + one.tokens;
      });
      if (has_digest(position) && stretch->digests.empty()) ++counts.without_digests;
      if (has_digest(position) && !stretch->digests.empty()) {
        const auto index = static_cast<std::size_t>(digests_between(stretch->position, position));
        if (stretch->digests[index] != digest_text(found.digest)) {
          return data_loss(at(position) + "the row's digest is " + digest_text(found.digest) +
                           ", and the record has " + stretch->digests[index]);
        }
        ++counts.digests;
      }
      const TokenId token = text_[static_cast<std::size_t>(position)];
      if (found.token != token) {
        return data_loss(at(position) + "the target chooses token " + std::to_string(found.token) +
                         ", and the record has " + std::to_string(token));
      }
      ++counts.tokens;
    }
    return {};
  }

  const std::span<const TokenId> text_;
  const TokenChoice& choice_;
  Model& model_;
  RowAdjuster adjuster_;
  std::unique_ptr<KvCache> cache_;
  std::vector<Row> rows_;
  PassOutput out_;
  std::vector<Found> found_;
};

Status check_ids(const RecordTerms& terms, const AuditTarget& target) {
  Open open;
  open.set_settings(terms.settings(), terms.prompt_tokens);
  if (terms.noise_version != open.noise_version) {
    return data_loss("its noise_version is " + std::to_string(terms.noise_version) +
                     ", and its settings are of version " + std::to_string(open.noise_version));
  }
  if (terms.tokenizer_hash != target.tokenizer_hash) {
    return data_loss("its tokenizer is " + terms.tokenizer_hash + ", and this target's is " +
                     target.tokenizer_hash);
  }
  if (!terms.template_hash.empty() && terms.template_hash != target.template_hash) {
    return data_loss("its chat template is " + terms.template_hash + ", and this target's is " +
                     target.template_hash);
  }
  return {};
}

Result<TokenChoice> choice_of(const RecordTerms& terms, const AuditTarget& target,
                              const ModelInfo& info) {
  TokenChoice choice{.sampling = terms.sampling(),
                     .seed = terms.seed,
                     .settings = terms.settings(),
                     .answer_begin = terms.prompt_tokens,
                     .stop_ids = stops_of(terms, info)};
  const Status valid = validate(choice.settings, info.vocab_size);
  if (!valid.ok()) return data_loss(valid.message());
  AnswerConstraint& constraint = choice.settings.constraint;
  if (!constraint.asks()) return choice;
  if (target.constraints == nullptr) return unimplemented("answers with a form cannot be audited");
  const Result<AnswerConstraint> compiled = target.constraints->compile(constraint.spec);
  if (!compiled.ok()) return data_loss("its form: " + compiled.status().message());
  constraint = *compiled;
  return choice;
}

}  // namespace

AuditCounts& AuditCounts::operator+=(const AuditCounts& other) {
  tokens += other.tokens;
  digests += other.digests;
  without_digests += other.without_digests;
  return *this;
}

Result<AuditCounts> audit(const RecordedAnswer& answer, const AuditTarget& target) {
  OUTRIDER_CHECK(!target.models.empty() && !answer.stretches.empty());
  OUTRIDER_RETURN_IF_ERROR(check_ids(answer.terms, target));
  const ModelInfo& info = target.models.front()->info();
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> text, text_of(answer, info));
  OUTRIDER_ASSIGN_OR_RETURN(const TokenChoice choice, choice_of(answer.terms, target, info));
  OUTRIDER_RETURN_IF_ERROR(check_end(answer, text, choice.stop_ids));
  std::vector<Model*> models;
  for (const RecordStretch& stretch : answer.stretches) {
    OUTRIDER_ASSIGN_OR_RETURN(models.emplace_back(), model_of(stretch, target));
  }
  // Stretches of one model, one behind the other, are read in one go: verifiers do not matter.
  AuditCounts counts;
  const std::span<const RecordStretch> all = answer.stretches;
  for (std::size_t first = 0, end = 0; first < all.size(); first = end) {
    while (end < all.size() && models[end] == models[first]) ++end;
    const std::span<const RecordStretch> alike = all.subspan(first, end - first);
    Reading reading(text, choice, *models[first]);
    OUTRIDER_RETURN_IF_ERROR(reading.compare(
        alike.front().position, alike.back().position + alike.back().tokens, alike, counts));
  }
  return counts;
}

}  // namespace outrider
