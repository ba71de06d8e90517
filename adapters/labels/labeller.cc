// SPDX-License-Identifier: Apache-2.0
#include "adapters/labels/labeller.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "adapters/exits/hidden_states.h"
#include "common/base/jsonl.h"
#include "common/base/sha256.h"
#include "common/engine/model/format/dtype.h"
#include "common/engine/sampling/select.h"
#include "common/serving/conversation/chat_template.h"

namespace outrider {
namespace {

class TextReader final {
 public:
  TextReader(const Tokenizer& tokenizer, std::int64_t longest)
      : tokenizer_(tokenizer), longest_(static_cast<std::size_t>(longest)) {}

  Status read_turns(const std::string& path, const ChatTemplate& chat, bool answers_only) {
    OUTRIDER_ASSIGN_OR_RETURN(const TokenId end, chat.end_of_turn(tokenizer_));
    return for_each_line(path, [&](const Json& line, const std::string& where) -> Status {
      OUTRIDER_ASSIGN_OR_RETURN(const std::string prompt, string_field(line, "prompt", where));
      OUTRIDER_ASSIGN_OR_RETURN(const std::string answer, string_field(line, "answer", where));
      Document document;
      OUTRIDER_ASSIGN_OR_RETURN(document.tokens,
                                chat.encode_chat(tokenizer_, {{ChatRole::kUser, prompt}}));
      if (document.tokens.size() >= longest_) return {};
      document.learnt.resize(document.tokens.size(), answers_only ? 0 : 1);
      OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> ids,
                                tokenizer_.encode(answer, {.add_special_tokens = false}));
      document.tokens.insert(document.tokens.end(), ids.begin(), ids.end());
      document.tokens.push_back(end);
      add(std::move(document));
      return {};
    });
  }

  Status read_plain(const std::string& path) {
    return for_each_line(path, [&](const Json& line, const std::string& where) -> Status {
      OUTRIDER_ASSIGN_OR_RETURN(const std::string text, string_field(line, "text", where));
      OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, tokenizer_.encode(text));
      for (std::size_t begin = 0; begin < ids.size(); begin += longest_) {
        const std::size_t end = std::min(ids.size(), begin + longest_);
        add({{ids.begin() + static_cast<std::ptrdiff_t>(begin),
              ids.begin() + static_cast<std::ptrdiff_t>(end)},
             {}});
      }
      return {};
    });
  }

  std::vector<Document> take() { return std::move(documents_); }

 private:
  // Tokens without a mark are learnt.
  void add(Document document) {
    document.tokens.resize(std::min(document.tokens.size(), longest_));
    document.learnt.resize(document.tokens.size(), 1);
    if (document.tokens.size() > 1) documents_.push_back(std::move(document));
  }

  const Tokenizer& tokenizer_;
  const std::size_t longest_;
  std::vector<Document> documents_;
};

std::string digest_of(const std::vector<Document>& documents) {
  Sha256 hash;
  const auto add = [&hash](const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    hash.update({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  };
  for (const Document& document : documents) {
    hash.update(std::to_string(document.tokens.size()) + ":");
    add(document.tokens);
    add(document.learnt);
  }
  return hash.finish_hex();
}

Status check(const ModelInfo& teacher, const std::vector<Document>& documents,
             const LabelOptions& options) {
  for (const Document& document : documents) {
    if (std::ssize(document.tokens) <= teacher.max_positions) continue;
    return invalid_argument("a document of " + std::to_string(document.tokens.size()) +
                            " tokens: the teacher's context has " +
                            std::to_string(teacher.max_positions) + ". Remedy: --max-length");
  }
  if (options.top_k < 1 || options.top_k > teacher.vocab_size) {
    return invalid_argument("--top-k " + std::to_string(options.top_k) + ": must be from 1 to " +
                            std::to_string(teacher.vocab_size));
  }
  for (std::size_t i = 0; i < options.layers.size(); ++i) {
    const std::int32_t layer = options.layers[i], least = i == 0 ? 1 : options.layers[i - 1] + 1;
    if (layer >= least && layer < teacher.num_layers) continue;
    return invalid_argument("--layers: " + std::to_string(layer) + " must be from " +
                            std::to_string(least) + " to " +
                            std::to_string(teacher.num_layers - 1) + ", in ascending order");
  }
  return {};
}

// An earlier run with the same labels may have written some shards.
Status open_directory(const std::string& directory, const LabelIndex& index) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return invalid_argument("--out " + directory + ": " + error.message());
  const Result<LabelIndex> there = read_label_index(directory);
  if (there.status().code() == StatusCode::kNotFound) return write_label_index(directory, index);
  if (!there.ok()) return there.status();
  if (*there == index) return {};
  return failed_precondition("--out " + directory +
                             " holds labels of another text, teacher, dtype, --top-k or --layers. "
                             "Remedy: the same ones to resume, or another directory");
}

void append(const HiddenBatch& batch, const LabelIndex& index, LabelShard& shard) {
  const auto vocab = static_cast<std::size_t>(index.vocab_size);
  for (std::size_t row = 0; row < batch.rows(); ++row) {
    append_top_k(std::span(batch.logits).subspan(row * vocab, vocab), index.top_k, shard.ids,
                 shard.log_probabilities);
  }
  for (std::size_t i = 0; i < batch.hidden.size(); ++i) {
    std::transform(batch.hidden[i].begin(), batch.hidden[i].end(),
                   std::back_inserter(shard.hidden[i]), to_bf16);
  }
}

}  // namespace

Result<std::vector<Document>> read_label_text(const Tokenizer& tokenizer, const LabelText& text) {
  TextReader reader(tokenizer, text.longest);
  if (!text.data.empty() || !text.answers.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(const ChatTemplate chat,
                              ChatTemplate::choose(tokenizer, text.chat_template));
    for (const std::string& path : text.data) {
      OUTRIDER_RETURN_IF_ERROR(reader.read_turns(path, chat, false));
    }
    for (const std::string& path : text.answers) {
      OUTRIDER_RETURN_IF_ERROR(reader.read_turns(path, chat, true));
    }
  }
  for (const std::string& path : text.text) OUTRIDER_RETURN_IF_ERROR(reader.read_plain(path));
  std::vector<Document> documents = reader.take();
  if (documents.empty()) {
    return data_loss(
        "nothing to label: no text, or prompts that leave no room for an answer. Remedy: --data, "
        "--answers or --text FILE; a larger --max-length");
  }
  return documents;
}

void append_top_k(std::span<const float> logits, std::int32_t top_k, std::vector<TokenId>& ids,
                  std::vector<float>& log_probabilities) {
  const auto count = static_cast<std::size_t>(top_k);
  std::vector<SelectKey> best;
  select_best(logits, count, best);
  const double largest = best.empty() ? 0.0 : value_of(best[0]);
  double sum = 0;
  for (const float logit : logits) {
    if (logit > largest - 40) sum += std::exp(logit - largest);
  }
  for (std::size_t i = 0; i < count; ++i) {
    // If a shortlist has fewer tokens, the first one fills the row with weight 0.
    const bool is_there = i < best.size();
    ids.push_back(is_there ? token_of(best[i]) : i == 0 ? 0 : ids[ids.size() - i]);
    const double value = is_there ? value_of(best[i]) - largest - std::log(sum) : -1e30;
    log_probabilities.push_back(static_cast<float>(value));
  }
}

LabelCost label_cost(const ModelInfo& teacher, const std::vector<Document>& documents,
                     const LabelOptions& options) {
  LabelCost cost;
  std::int64_t most_rows = 0, longest = 0;
  for (const Document& document : documents) {
    const auto rows = static_cast<std::int64_t>(learnt_rows(document));
    cost.tokens += std::ssize(document.tokens);
    cost.rows += rows;
    most_rows = std::max(most_rows, rows);
    longest = std::max<std::int64_t>(longest, std::ssize(document.tokens));
  }
  const auto layers = std::ssize(options.layers);
  cost.disk_bytes =
      cost.tokens * 8 + cost.rows * (options.top_k * 8 + layers * teacher.hidden_size * 2);
  cost.memory_bytes =
      most_rows * 4 * (2 * teacher.vocab_size + layers * teacher.hidden_size) +
      longest * teacher.num_layers * teacher.hidden_size * 8 +
      options.shard_documents * most_rows * (options.top_k * 8 + layers * teacher.hidden_size * 2);
  return cost;
}

Status label_documents(Model& teacher, const std::vector<Document>& documents,
                       const std::string& tokenizer, const LabelOptions& options,
                       const std::function<Status(std::int64_t)>& on_progress) {
  const ModelInfo& info = teacher.info();
  OUTRIDER_RETURN_IF_ERROR(check(info, documents, options));
  const LabelIndex index{.teacher = info.fingerprint,
                         .dtype = info.dtype,
                         .tokenizer = tokenizer,
                         .text = digest_of(documents),
                         .vocab_size = info.vocab_size,
                         .hidden_size = info.hidden_size,
                         .top_k = options.top_k,
                         .layers = options.layers,
                         .documents = std::ssize(documents),
                         .shard_documents = options.shard_documents};
  OUTRIDER_RETURN_IF_ERROR(open_directory(options.out, index));
  OUTRIDER_ASSIGN_OR_RETURN(HiddenReader reader, HiddenReader::make(teacher, options.layers));
  std::int64_t done = 0;
  for (std::int64_t number = 0; number < index.shards(); ++number) {
    const auto first = static_cast<std::size_t>(number * index.shard_documents);
    const auto part = std::span(documents).subspan(
        first, std::min(documents.size() - first, static_cast<std::size_t>(index.shard_documents)));
    const bool is_there = has_shard(options.out, number);
    LabelShard shard;
    shard.documents.assign(part.begin(), part.end());
    shard.hidden.resize(options.layers.size());
    for (const Document& document : part) {
      if (!is_there) {
        HiddenBatch batch = reader.empty_batch();
        OUTRIDER_RETURN_IF_ERROR(reader.read(document, batch));
        append(batch, index, shard);
      }
      OUTRIDER_RETURN_IF_ERROR(on_progress(done += std::ssize(document.tokens)));
    }
    if (is_there) continue;
    OUTRIDER_RETURN_IF_ERROR(write_shard(options.out, index, number, shard));
  }
  return {};
}

}  // namespace outrider
