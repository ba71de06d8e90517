// SPDX-License-Identifier: Apache-2.0
#include "adapters/labels/label_files.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>

#include "adapters/exits/hidden_states.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/mapped_file.h"
#include "common/base/output_file.h"
#include "common/engine/model/format/config_fields.h"
#include "common/engine/model/format/safetensors.h"
#include "common/engine/model/format/safetensors_writer.h"
#include "common/engine/model/format/tensor_view.h"

namespace outrider {
namespace {

constexpr std::int64_t kMaxIndexBytes = 1 << 20;

constexpr OutputKind kLabelIndexFile{.name = "an index of labels",
                                     .is_earlier = [](std::string_view content) {
                                       return content.starts_with("{\n  \"documents\":") &&
                                              content.find("\"teacher\"") != std::string_view::npos;
                                     }};

std::string index_path(const std::string& directory) {
  return directory + "/labels.json";
}

std::string shard_path(const std::string& directory, std::int64_t number) {
  char name[40];
  std::snprintf(name, sizeof name, "/labels-%05lld.safetensors", static_cast<long long>(number));
  return directory + name;
}

template <class T>
std::vector<float> as_floats(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

// The tensors of one shard, checked against what the index says.
class ShardReader final {
 public:
  static Result<ShardReader> open(const std::string& path) {
    ShardReader reader;
    reader.path_ = path;
    OUTRIDER_ASSIGN_OR_RETURN(reader.file_, MappedFile::open(path));
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<SafetensorsEntry> entries,
                              parse_safetensors(reader.file_->bytes(), path));
    for (const SafetensorsEntry& entry : entries) reader.entries_.emplace(entry.name, entry);
    return reader;
  }

  // columns: 0 for a vector. rows below 0: any number of rows.
  Result<std::vector<float>> floats(const std::string& name, std::int64_t rows,
                                    std::int64_t columns) const {
    OUTRIDER_ASSIGN_OR_RETURN(const TensorView view, tensor(name, rows, columns));
    std::vector<float> values(static_cast<std::size_t>(view.num_elements()));
    widen(view, 0, values);
    return values;
  }

  // Whole numbers from 0 to `most`.
  Result<std::vector<std::int32_t>> numbers(const std::string& name, std::int64_t rows,
                                            std::int64_t columns, std::int64_t most) const {
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<float> values, floats(name, rows, columns));
    std::vector<std::int32_t> numbers;
    numbers.reserve(values.size());
    for (const float value : values) {
      if (!(value >= 0 && value <= static_cast<float>(most)) ||
          value != static_cast<float>(static_cast<std::int32_t>(value))) {
        return data_loss(path_ + ": " + name + " holds " + std::to_string(value) +
                         ", must be a whole number from 0 to " + std::to_string(most));
      }
      numbers.push_back(static_cast<std::int32_t>(value));
    }
    return numbers;
  }

  Result<std::vector<std::uint16_t>> bf16(const std::string& name, std::int64_t rows,
                                          std::int64_t columns) const {
    OUTRIDER_ASSIGN_OR_RETURN(const TensorView view, tensor(name, rows, columns));
    if (view.dtype != DType::kBF16) return data_loss(path_ + ": " + name + " is not BF16");
    const auto* begin = reinterpret_cast<const std::uint16_t*>(view.data);
    return std::vector<std::uint16_t>(begin, begin + view.num_elements());
  }

  const std::string& path() const { return path_; }

 private:
  Result<TensorView> tensor(const std::string& name, std::int64_t rows,
                            std::int64_t columns) const {
    const auto found = entries_.find(name);
    if (found == entries_.end()) return data_loss(path_ + ": " + name + " is missing");
    const SafetensorsEntry& entry = found->second;
    const std::size_t dimensions = columns == 0 ? 1 : 2;
    if (entry.shape.size() != dimensions || (rows >= 0 && entry.shape[0] != rows) ||
        (columns > 0 && entry.shape[1] != columns)) {
      return data_loss(path_ + ": " + name + " has another shape than the labels say");
    }
    return TensorView{entry.dtype, entry.shape, file_->bytes().data() + entry.begin,
                      static_cast<std::size_t>(entry.end - entry.begin)};
  }

  std::string path_;
  std::unique_ptr<MappedFile> file_;
  std::map<std::string, SafetensorsEntry> entries_;
};

Result<std::vector<Document>> read_documents(const ShardReader& reader, const LabelIndex& index,
                                             std::int64_t count) {
  constexpr std::int64_t kLongest = 1 << 20;
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<std::int32_t> lengths,
                            reader.numbers("lengths", count, 0, kLongest));
  const std::int64_t total = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<std::int32_t> tokens,
                            reader.numbers("tokens", total, 0, index.vocab_size - 1));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<std::int32_t> learnt,
                            reader.numbers("learnt", total, 0, 1));
  std::vector<Document> documents;
  std::ptrdiff_t at = 0;
  for (const std::int32_t length : lengths) {
    if (length < 1) return data_loss(reader.path() + ": a document is empty");
    documents.push_back({{tokens.begin() + at, tokens.begin() + at + length},
                         {learnt.begin() + at, learnt.begin() + at + length}});
    at += length;
  }
  return documents;
}

}  // namespace

Result<LabelIndex> read_label_index(const std::string& directory) {
  const std::string path = index_path(directory);
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxIndexBytes));
  OUTRIDER_ASSIGN_OR_RETURN(const Json json, parse_json(text, path));
  FieldReader fields(json, path);
  const auto count = [&](const char* key, std::int64_t low, std::int64_t high) {
    return fields.integer(key, low, high);
  };
  LabelIndex index;
  index.teacher = fields.text("teacher");
  index.dtype = fields.text("dtype");
  index.tokenizer = fields.text("tokenizer");
  index.text = fields.text("text");
  index.vocab_size = static_cast<std::int32_t>(count("vocab_size", 1, 1 << 24));
  index.hidden_size = static_cast<std::int32_t>(count("hidden_size", 1, 1 << 20));
  index.top_k = static_cast<std::int32_t>(count("top_k", 1, index.vocab_size));
  index.documents = count("documents", 1, 1 << 30);
  index.shard_documents = count("shard_documents", 1, 1 << 20);
  OUTRIDER_RETURN_IF_ERROR(fields.status());
  const Json layers = json.value("layers", Json::array());
  for (const Json& layer : layers) {
    const bool is_number = layer.is_number_unsigned() && layer.get<std::uint64_t>() < 1 << 16;
    if (!is_number || (!index.layers.empty() && layer.get<std::int32_t>() <= index.layers.back())) {
      return data_loss(path + ": layers must rise, holds " + layer.dump().substr(0, 40));
    }
    index.layers.push_back(layer.get<std::int32_t>());
  }
  return index;
}

Status write_label_index(const std::string& directory, const LabelIndex& index) {
  const Json json = {{"teacher", index.teacher},       {"dtype", index.dtype},
                     {"tokenizer", index.tokenizer},   {"text", index.text},
                     {"vocab_size", index.vocab_size}, {"hidden_size", index.hidden_size},
                     {"top_k", index.top_k},           {"layers", index.layers},
                     {"documents", index.documents},   {"shard_documents", index.shard_documents}};
  return write_output(index_path(directory), kLabelIndexFile, json.dump(2) + "\n");
}

bool has_shard(const std::string& directory, std::int64_t number) {
  std::error_code error;
  return std::filesystem::exists(shard_path(directory, number), error);
}

Result<LabelShard> read_shard(const std::string& directory, const LabelIndex& index,
                              std::int64_t number) {
  OUTRIDER_ASSIGN_OR_RETURN(const ShardReader reader,
                            ShardReader::open(shard_path(directory, number)));
  const std::int64_t first = number * index.shard_documents;
  LabelShard shard;
  OUTRIDER_ASSIGN_OR_RETURN(
      shard.documents,
      read_documents(reader, index, std::min(index.shard_documents, index.documents - first)));
  std::int64_t rows = 0;
  for (const Document& document : shard.documents) {
    rows += static_cast<std::int64_t>(learnt_rows(document));
  }
  OUTRIDER_ASSIGN_OR_RETURN(shard.ids,
                            reader.numbers("ids", rows, index.top_k, index.vocab_size - 1));
  OUTRIDER_ASSIGN_OR_RETURN(shard.log_probabilities,
                            reader.floats("log_probabilities", rows, index.top_k));
  if (std::any_of(shard.log_probabilities.begin(), shard.log_probabilities.end(),
                  [](float value) { return !(value <= 1e-3f); })) {
    return data_loss(reader.path() + ": log_probabilities holds NaN or a probability above 1");
  }
  for (const std::int32_t layer : index.layers) {
    OUTRIDER_ASSIGN_OR_RETURN(
        shard.hidden.emplace_back(),
        reader.bf16("hidden." + std::to_string(layer), rows, index.hidden_size));
  }
  return shard;
}

Status write_shard(const std::string& directory, const LabelIndex& index, std::int64_t number,
                   const LabelShard& shard) {
  std::vector<float> lengths, tokens, learnt;
  for (const Document& document : shard.documents) {
    lengths.push_back(static_cast<float>(document.tokens.size()));
    tokens.insert(tokens.end(), document.tokens.begin(), document.tokens.end());
    learnt.insert(learnt.end(), document.learnt.begin(), document.learnt.end());
  }
  const std::vector<float> ids = as_floats(shard.ids);
  const std::int64_t rows = std::ssize(shard.ids) / index.top_k;
  std::vector<TensorBytes> tensors;
  const auto add = [&](const std::string& name, const std::vector<float>& values,
                       std::int64_t columns) {
    std::vector<std::int64_t> shape = {std::ssize(values)};
    if (columns > 0) shape = {std::ssize(values) / columns, columns};
    tensors.push_back({{name, DType::kF32, std::move(shape)}, std::as_bytes(std::span(values))});
  };
  add("lengths", lengths, 0);
  add("tokens", tokens, 0);
  add("learnt", learnt, 0);
  add("ids", ids, index.top_k);
  add("log_probabilities", shard.log_probabilities, index.top_k);
  for (std::size_t i = 0; i < index.layers.size(); ++i) {
    tensors.push_back(
        {{"hidden." + std::to_string(index.layers[i]), DType::kBF16, {rows, index.hidden_size}},
         std::as_bytes(std::span(shard.hidden[i]))});
  }
  return write_safetensors(shard_path(directory, number), std::move(tensors));
}

Result<Shortlist> choose_shortlist(const std::string& labels, const std::vector<TokenId>& stop_ids,
                                   std::int64_t size) {
  OUTRIDER_ASSIGN_OR_RETURN(const LabelIndex index, read_label_index(labels));
  std::vector<double> weights(static_cast<std::size_t>(index.vocab_size));
  for (std::int64_t number = 0; number < index.shards(); ++number) {
    OUTRIDER_ASSIGN_OR_RETURN(const LabelShard shard, read_shard(labels, index, number));
    for (std::size_t i = 0; i < shard.ids.size(); ++i) {
      weights[static_cast<std::size_t>(shard.ids[i])] += std::exp(shard.log_probabilities[i]);
    }
  }
  std::vector<bool> ends(weights.size());
  for (const TokenId stop : stop_ids) ends.at(static_cast<std::size_t>(stop)) = true;
  Shortlist list;
  list.tokens.resize(weights.size());
  std::iota(list.tokens.begin(), list.tokens.end(), 0);
  std::stable_sort(list.tokens.begin(), list.tokens.end(), [&](TokenId a, TokenId b) {
    const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
    return ends[i] != ends[j] ? ends[i] : weights[i] > weights[j];
  });
  list.tokens.resize(std::min(list.tokens.size(), static_cast<std::size_t>(size)));
  for (const TokenId token : list.tokens) list.covered += weights[static_cast<std::size_t>(token)];
  list.covered /= std::max(1e-30, std::accumulate(weights.begin(), weights.end(), 0.0));
  std::sort(list.tokens.begin(), list.tokens.end());
  return list;
}

}  // namespace outrider
