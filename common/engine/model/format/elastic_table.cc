// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/format/elastic_table.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/sha256.h"
#include "common/engine/model/format/architecture.h"
#include "common/engine/model/format/config_fields.h"

namespace outrider {
namespace {

constexpr std::int64_t kVersion = 1;
constexpr std::int32_t kRun = kElasticGroup;
constexpr std::size_t kMaxNameLength = 32;
constexpr double kMaxDivergence = 1e6, kMaxScore = 1e12;
constexpr double kMinScoreShare = 0.95, kUnscoredDivergence = 0.25;
constexpr const char* kRemake = ". Remedy: make the table again (outrider-train elastic table)";

std::size_t index(std::int64_t at) {
  return static_cast<std::size_t>(at);
}

// The text of the value in a number's place; a value from a file may be long.
std::string number_text(const Json& value) {
  const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return value.is_number() ? text : printable(text);
}

std::string at(const char* key, std::size_t element) {
  return std::string(key) + "[" + std::to_string(element) + "]";
}

// A name is a part of a model's name, as clients write it: "X@60".
bool is_level_name(std::string_view name) {
  const auto fits = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
  };
  return !name.empty() && name.size() <= kMaxNameLength && std::ranges::all_of(name, fits) &&
         name != "auto";
}

// Reads one table; the model's shape says what each list may hold.
class TableReader final {
 public:
  TableReader(const ModelConfig& config, const std::string& what)
      : config_(config), what_(what), full_(full_widths(config)) {}

  Result<ElasticTable> read(const Json& json, const std::string& fingerprint) {
    FieldReader fields(json, what_);
    const std::int64_t version = fields.integer("version", 0, 1 << 30);
    OUTRIDER_RETURN_IF_ERROR(fields.status());
    if (version != kVersion) {
      return wrong("version", std::to_string(version),
                   "must be " + std::to_string(kVersion) +
                       ". Remedy: make the table with this program's version");
    }
    ElasticTable table;
    table.model = fields.text("model");
    OUTRIDER_RETURN_IF_ERROR(fields.status());
    if (table.model != fingerprint) {
      return wrong("model", printable(table.model.substr(0, 16)) + "..",
                   "but this model's fingerprint is " + fingerprint.substr(0, 16) +
                       "..: the table is another model's" + kRemake);
    }
    OUTRIDER_ASSIGN_OR_RETURN(
        table.anchors, numbers(json, "anchors", {0, config_.num_layers - 1, 0, layers()}, ""));
    OUTRIDER_RETURN_IF_ERROR(read_order(json, table));
    OUTRIDER_RETURN_IF_ERROR(read_task(json, table));
    OUTRIDER_RETURN_IF_ERROR(read_levels(json, table));
    if (!table.task.empty() && table.full().score <= 0) {
      return wrong("levels[0].score", number_text(Json(table.full().score)),
                   "but must be above 0, as the others are shares of it");
    }
    return table;
  }

 private:
  // The bounds of a list's numbers, and of their count.
  struct Bounds {
    std::int32_t low;
    std::int32_t high;
    std::size_t fewest;
    std::size_t most;
  };

  std::size_t layers() const { return index(config_.num_layers); }

  Status wrong(const std::string& field, const std::string& value, const std::string& why) const {
    return invalid_argument(what_ + ": " + field + " is " + value + ", " + why);
  }

  Result<std::vector<std::int32_t>> numbers(const Json& object, const char* key,
                                            const Bounds& bounds, const std::string& where) const {
    const std::string field = where + key;
    const auto found = object.find(key);
    if (found == object.end() || !found->is_array()) {
      return invalid_argument(what_ + ": " + field + " must be a list of numbers" + kRemake);
    }
    if (found->size() < bounds.fewest || found->size() > bounds.most) {
      const std::string wanted =
          bounds.fewest == bounds.most
              ? std::to_string(bounds.most)
              : std::to_string(bounds.fewest) + " to " + std::to_string(bounds.most);
      return wrong(field, "a list of " + std::to_string(found->size()),
                   "must have " + wanted + kRemake);
    }
    std::vector<std::int32_t> values;
    values.reserve(found->size());
    for (const Json& each : *found) {
      const double value = each.is_number() ? each.get<double>() : std::nan("");
      if (!each.is_number_integer() || value < bounds.low || value > bounds.high) {
        return wrong(field + "[" + std::to_string(values.size()) + "]", number_text(each),
                     "must be a whole number from " + std::to_string(bounds.low) + " to " +
                         std::to_string(bounds.high) + kRemake);
      }
      values.push_back(each.get<std::int32_t>());
    }
    return values;
  }

  Result<const Json*> objects(const Json& object, const char* key, std::size_t fewest,
                              std::size_t most) const {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_array() || found->size() < fewest ||
        found->size() > most ||
        !std::ranges::all_of(*found, [](const Json& each) { return each.is_object(); })) {
      return invalid_argument(what_ + ": " + key + " must be a list of " + std::to_string(fewest) +
                              (fewest == most ? "" : " to " + std::to_string(most)) + " objects" +
                              kRemake);
    }
    return &*found;
  }

  Status read_order(const Json& json, ElasticTable& table) const {
    OUTRIDER_ASSIGN_OR_RETURN(const Json* order, objects(json, "order", layers(), layers()));
    for (const Json& each : *order) {
      const std::string where = at("order", table.order.size()) + ".";
      LayerOrder layer;
      OUTRIDER_ASSIGN_OR_RETURN(layer.neurons, read_neurons(each, where));
      OUTRIDER_ASSIGN_OR_RETURN(layer.kv_groups,
                                permutation(each, "kv_groups", full_.kv_groups, where));
      table.order.push_back(std::move(layer));
    }
    return {};
  }

  Result<std::vector<std::int32_t>> read_neurons(const Json& json, const std::string& where) const {
    if (!json.contains("neuron_groups")) return permutation(json, "neurons", full_.neurons, where);
    if (json.contains("neurons")) {
      return wrong(where + "neuron_groups", "beside neurons",
                   "must be alone" + std::string(kRemake));
    }
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<std::int32_t> groups,
                              permutation(json, "neuron_groups", full_.neurons / kRun, where));
    std::vector<std::int32_t> neurons;
    for (const std::int32_t group : groups) {
      for (std::int32_t i = 0; i < kRun; ++i) neurons.push_back(group * kRun + i);
    }
    return neurons;
  }

  // Empty, or every number below `count` once.
  Result<std::vector<std::int32_t>> permutation(const Json& object, const char* key,
                                                std::int32_t count,
                                                const std::string& where) const {
    OUTRIDER_ASSIGN_OR_RETURN(std::vector<std::int32_t> values,
                              numbers(object, key, {0, count - 1, 0, index(count)}, where));
    if (values.empty()) return values;
    if (std::ssize(values) != count) {
      return wrong(where + key, "a list of " + std::to_string(values.size()),
                   "must have each of the layer's " + std::to_string(count) +
                       " units, or none: as stored" + kRemake);
    }
    std::vector<bool> seen(values.size());
    for (const std::int32_t value : values) {
      if (seen[index(value)]) {
        return wrong(where + key, "not a permutation: " + std::to_string(value) + " comes twice",
                     "must have each unit once" + std::string(kRemake));
      }
      seen[index(value)] = true;
    }
    return values;
  }

  Status read_task(const Json& json, ElasticTable& table) const {
    FieldReader fields(json, what_);
    if (json.contains("task")) table.task = fields.text("task");
    const bool is_named = !json.contains("task") || !table.task.empty();
    if (!fields.status().ok() || is_named) return fields.status();
    return wrong("task", "empty", "but names what the scores count. Remedy: a name, or no task");
  }

  Status read_levels(const Json& json, ElasticTable& table) const {
    OUTRIDER_ASSIGN_OR_RETURN(const Json* levels, objects(json, "levels", 1, kMaxElasticLevels));
    for (const Json& each : *levels) {
      const std::string where = at("levels", table.levels.size());
      OUTRIDER_ASSIGN_OR_RETURN(ElasticLevel level, read_level(each, where));
      if (!table.task.empty()) {
        FieldReader fields(each, what_ + ": " + where);
        level.score = fields.real("score", 0.0, kMaxScore);
        OUTRIDER_RETURN_IF_ERROR(fields.status());
      }
      OUTRIDER_RETURN_IF_ERROR(check_place(table, level, where));
      OUTRIDER_RETURN_IF_ERROR(check_bytes(each, level, where));
      table.levels.push_back(std::move(level));
    }
    return {};
  }

  Result<ElasticLevel> read_level(const Json& json, const std::string& where) const {
    FieldReader fields(json, what_ + ": " + where);
    ElasticLevel level;
    level.name = fields.text("name");
    level.divergence = fields.real("divergence", 0.0, kMaxDivergence);
    level.agreement = fields.real("agreement", 0.0, 1.0);
    OUTRIDER_RETURN_IF_ERROR(fields.status());
    if (!is_level_name(level.name)) {
      return wrong(where + ".name", printable(level.name),
                   "must be 1 to " + std::to_string(kMaxNameLength) +
                       " letters, digits, dots, dashes or underscores, and not \"auto\"");
    }
    OUTRIDER_ASSIGN_OR_RETURN(
        const std::vector<std::int32_t> neurons,
        numbers(json, "neurons", {0, full_.neurons, layers(), layers()}, where + "."));
    OUTRIDER_ASSIGN_OR_RETURN(
        const std::vector<std::int32_t> groups,
        numbers(json, "kv_groups", {0, full_.kv_groups, layers(), layers()}, where + "."));
    for (std::size_t i = 0; i < layers(); ++i) {
      level.layers.push_back({neurons[i], groups[i]});
      OUTRIDER_RETURN_IF_ERROR(check_whole_groups(level.layers.back(), where, i));
    }
    level.bytes = level_bytes(config_, level.layers);
    return level;
  }

  Status check_whole_groups(const LayerWidths& widths, const std::string& where,
                            std::size_t layer) const {
    const bool cuts_mlp = widths.neurons != full_.neurons;
    if (cuts_mlp && (widths.neurons % kElasticGroup != 0 || full_.neurons % kElasticGroup != 0)) {
      return wrong(where + "." + at("neurons", layer), std::to_string(widths.neurons),
                   "must be whole groups of 32 of a feed-forward block of whole groups (this "
                   "model's has " +
                       std::to_string(full_.neurons) + ")" + kRemake);
    }
    if (widths.kv_groups != full_.kv_groups && group_columns(config_) % kElasticGroup != 0) {
      return wrong(where + "." + at("kv_groups", layer), std::to_string(widths.kv_groups),
                   "must be the model's " + std::to_string(full_.kv_groups) +
                       ": one of its groups has " + std::to_string(group_columns(config_)) +
                       " columns, which are not whole groups of 32" + kRemake);
    }
    return {};
  }

  Status check_bytes(const Json& json, const ElasticLevel& level, const std::string& where) const {
    const auto found = json.find("bytes");
    if (found == json.end() || !found->is_object()) {
      return invalid_argument(what_ + ": " + where + ".bytes must be an object" + kRemake);
    }
    for (const auto& [dtype, bytes] : level.bytes) {
      FieldReader fields(*found, what_ + ": " + where + ".bytes");
      const std::int64_t told = fields.integer(dtype.c_str(), 0, std::int64_t{1} << 50);
      OUTRIDER_RETURN_IF_ERROR(fields.status());
      if (told == bytes) continue;
      std::string field = where;
      field.append(".bytes.").append(dtype);
      return wrong(field, std::to_string(told),
                   "but a level of these widths has " + std::to_string(bytes) + kRemake);
    }
    return {};
  }

  // After the levels that are in the table: full first, then nested.
  Status check_place(const ElasticTable& table, const ElasticLevel& level,
                     const std::string& where) const {
    for (const std::int32_t anchor : table.anchors) {
      if (level.layers[index(anchor)] == full_) continue;
      return invalid_argument(what_ + ": " + where + " \"" + level.name + "\" cuts layer " +
                              std::to_string(anchor) + ", which is an anchor" + kRemake);
    }
    for (std::size_t i = 0; i < layers(); ++i) {
      const LayerWidths& widths = level.layers[i];
      const LayerWidths& outer = table.levels.empty() ? full_ : table.levels.back().layers[i];
      if (table.levels.empty()
              ? widths == full_
              : widths.neurons <= outer.neurons && widths.kv_groups <= outer.kv_groups) {
        continue;
      }
      return invalid_argument(what_ + ": " + where + " \"" + level.name + "\" has " +
                              std::to_string(widths.neurons) + " neurons and " +
                              std::to_string(widths.kv_groups) + " groups in layer " +
                              std::to_string(i) + ", but " +
                              (table.levels.empty() ? "the first level must be the full model"
                                                    : "is not nested: the level before has " +
                                                          std::to_string(outer.neurons) + " and " +
                                                          std::to_string(outer.kv_groups)) +
                              kRemake);
    }
    for (const ElasticLevel& other : table.levels) {
      if (other.name != level.name) continue;
      return wrong(where + ".name", "\"" + level.name + "\"",
                   "as another level's" + std::string(kRemake));
    }
    return {};
  }

  const ModelConfig& config_;
  const std::string& what_;
  const LayerWidths full_;
};

bool is_identity(const std::vector<std::int32_t>& order) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i] != static_cast<std::int32_t>(i)) return false;
  }
  return true;
}

std::string list_text(const std::vector<std::int32_t>& values) {
  std::string text = "[";
  for (const std::int32_t value : values) {
    if (text.size() > 1) text += ",";
    text += std::to_string(value);
  }
  return text + "]";
}

template <class Width>
std::vector<std::int32_t> widths_of(const ElasticLevel& level, Width width) {
  std::vector<std::int32_t> values;
  for (const LayerWidths& each : level.layers) values.push_back(each.*width);
  return values;
}

// Weights of one unit.
struct UnitSizes {
  explicit UnitSizes(const ModelConfig& config)
      : neuron(std::int64_t{config.hidden_size} * (config.kinds.gated ? 3 : 2)),
        kv_group(2 * (group_columns(config) + config.head_dim) * config.hidden_size),
        group_biases(config.qkv_bias ? group_columns(config) + std::int64_t{2} * config.head_dim
                                     : 0) {}

  std::int64_t neuron;
  std::int64_t kv_group;
  std::int64_t group_biases;
};

}  // namespace

LayerWidths full_widths(const ModelConfig& config) {
  return {config.intermediate_size, config.num_kv_heads};
}

std::int64_t group_columns(const ModelConfig& config) {
  return config.q_size() / config.num_kv_heads;
}

Status check_elastic(const ModelConfig& config) {
  const auto cannot = [](const std::string& what) {
    return unimplemented("elastic levels of a model with " + what +
                         ". Remedy: a model of Llama's blocks, or no --elastic");
  };
  if (config.experts.count > 0) return cannot("experts");
  if (config.mlp_bias || config.o_bias) return cannot("biases behind attention or feed-forward");
  return {};
}

Result<ElasticTable> parse_elastic_table(std::string_view text, const ModelConfig& config,
                                         const std::string& fingerprint, const std::string& what) {
  OUTRIDER_RETURN_IF_ERROR(check_elastic(config));
  OUTRIDER_ASSIGN_OR_RETURN(const Json json, parse_json(text, what));
  return TableReader(config, what).read(json, fingerprint);
}

Result<ElasticTable> read_elastic_table(const std::string& path, const ModelConfig& config,
                                        const std::string& fingerprint) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxElasticFileBytes));
  return parse_elastic_table(text, config, fingerprint, path);
}

namespace {

// The order of whole groups, if they stay together; else of all neurons.
std::string neurons_text(const std::vector<std::int32_t>& neurons) {
  std::vector<std::int32_t> groups;
  for (std::size_t i = 0; i < neurons.size(); i += kRun) {
    groups.push_back(neurons[i] / kRun);
    for (std::size_t k = 0; k < kRun; ++k) {
      if (i + k >= neurons.size() ||
          neurons[i + k] != groups.back() * kRun + static_cast<std::int32_t>(k)) {
        return "\"neurons\": " + list_text(neurons);
      }
    }
  }
  return "\"neuron_groups\": " + list_text(groups);
}

}  // namespace

std::string elastic_table_text(const ElasticTable& table) {
  std::string text = "{\"version\": " + std::to_string(kVersion) + ", \"model\": \"" + table.model +
                     "\", \"anchors\": " + list_text(table.anchors) +
                     (table.task.empty() ? "" : ", \"task\": " + Json(table.task).dump()) +
                     ",\n\"order\": [\n";
  for (const LayerOrder& layer : table.order) {
    text += "{" + neurons_text(layer.neurons) + ", \"kv_groups\": " + list_text(layer.kv_groups) +
            "}" + (&layer == &table.order.back() ? "],\n" : ",\n");
  }
  text += "\"levels\": [\n";
  for (const ElasticLevel& level : table.levels) {
    text += "{\"name\": " + Json(level.name).dump() +
            ", \"neurons\": " + list_text(widths_of(level, &LayerWidths::neurons)) +
            ", \"kv_groups\": " + list_text(widths_of(level, &LayerWidths::kv_groups)) +
            ", \"bytes\": " + Json(level.bytes).dump() +
            ", \"divergence\": " + Json(level.divergence).dump() +
            ", \"agreement\": " + Json(level.agreement).dump() +
            (table.task.empty() ? "" : ", \"score\": " + Json(level.score).dump()) + "}" +
            (&level == &table.levels.back() ? "]}\n" : ",\n");
  }
  return text;
}

double level_quality(const ElasticTable& table, const ElasticLevel& level) {
  return table.task.empty() ? std::exp(-level.divergence) : level.score / table.full().score;
}

double least_quality(const ElasticTable& table) {
  return table.task.empty() ? std::exp(-kUnscoredDivergence) : kMinScoreShare;
}

Result<const ElasticLevel*> find_level(const ElasticTable& table, std::string_view name) {
  std::string known;
  for (const ElasticLevel& level : table.levels) {
    if (level.name == name) return &level;
    known += (known.empty() ? "" : ", ") + level.name;
  }
  return not_found("level " + printable(name) + " is not one of this model's: " + known);
}

std::string order_id(const ElasticTable& table) {
  const bool as_stored = std::ranges::all_of(table.order, [](const LayerOrder& layer) {
    return is_identity(layer.neurons) && is_identity(layer.kv_groups);
  });
  if (as_stored) return {};
  Sha256 hash;
  for (const LayerOrder& layer : table.order) {
    for (const auto& order : {layer.neurons, layer.kv_groups}) {
      hash.update(list_text(is_identity(order) ? std::vector<std::int32_t>() : order));
    }
  }
  return "order " + hash.finish_hex();
}

std::string level_id(const ElasticTable& table, const ElasticLevel& level) {
  if (level.layers == table.full().layers) return {};
  return "level " + list_text(widths_of(level, &LayerWidths::neurons)) +
         list_text(widths_of(level, &LayerWidths::kv_groups));
}

std::int64_t left_out(const ModelConfig& config, const ElasticLevel& level) {
  const UnitSizes sizes(config);
  const LayerWidths full = full_widths(config);
  std::int64_t count = 0;
  for (const LayerWidths& widths : level.layers) {
    count += (full.neurons - widths.neurons) * sizes.neuron +
             (full.kv_groups - widths.kv_groups) * (sizes.kv_group + sizes.group_biases);
  }
  return count;
}

std::map<std::string, std::int64_t> level_bytes(const ModelConfig& config,
                                                std::span<const LayerWidths> layers) {
  const UnitSizes sizes(config);
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t head = config.head_size() * hidden;
  std::int64_t elements = 0;
  std::int64_t vectors = hidden;  // the final norm
  for (const LayerWidths& widths : layers) {
    elements += widths.neurons * sizes.neuron + widths.kv_groups * sizes.kv_group;
    vectors += 2 * hidden + widths.kv_groups * sizes.group_biases +
               (config.qk_norm ? 2 * config.head_dim : 0);
  }
  // A group of 32 has an f16 scale, and in 4 bits an f16 minimum too.
  const auto int8 = [](std::int64_t count) { return (count + 31) / 32 * 34; };
  const auto int4 = [](std::int64_t count) { return (count + 31) / 32 * 20; };
  return {{"f32", 4 * (elements + head + vectors)},
          {"bf16", 2 * (elements + head) + 4 * vectors},
          {"int8", int8(elements) + int8(head) + 4 * vectors},
          {"int4", int4(elements) + int8(head) + 4 * vectors}};
}

}  // namespace outrider
