// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/answer.h"

#include <algorithm>
#include <array>
#include <utility>

namespace outrider {
namespace {

std::optional<double> ratio(double numerator, double denominator) {
  if (denominator <= 0) return std::nullopt;
  return numerator / denominator;
}

// The one list of PredraftCounts's fields and their names in JSON.
constexpr std::array<std::pair<const char*, double PredraftCounts::*>, 11> kPredraftFields = {
    {{"verdicts", &PredraftCounts::verdicts},
     {"hits", &PredraftCounts::hits},
     {"partial_hits", &PredraftCounts::partial_hits},
     {"late_hits", &PredraftCounts::late_hits},
     {"misses", &PredraftCounts::misses},
     {"wanted_tokens", &PredraftCounts::wanted_tokens},
     {"missing_tokens", &PredraftCounts::missing_tokens},
     {"synced", &PredraftCounts::synced},
     {"ahead_nodes", &PredraftCounts::ahead_nodes},
     {"ahead_dead", &PredraftCounts::ahead_dead},
     {"surplus_rows", &PredraftCounts::surplus_rows}}};

constexpr std::array kSummed = {
    &AnswerFigures::decode_ms,    &AnswerFigures::tokens,   &AnswerFigures::all_tokens,
    &AnswerFigures::passes,       &AnswerFigures::rows,     &AnswerFigures::compute_ms,
    &AnswerFigures::rounds,       &AnswerFigures::drafted,  &AnswerFigures::accepted,
    &AnswerFigures::draft_steps,  &AnswerFigures::draft_ms, &AnswerFigures::payload_up,
    &AnswerFigures::payload_down, &AnswerFigures::wire_up,  &AnswerFigures::wire_down};

// Reads numbers of an object and remembers the first that is not there.
class Fields final {
 public:
  explicit Fields(const Json& json) : json_(json) {}

  double number(const char* key) {
    const auto found = json_.find(key);
    if (found != json_.end() && found->is_number()) return found->get<double>();
    if (missing_.empty()) missing_ = key;
    return 0;
  }
  const Json& object(const char* key) {
    static const Json kNothing = Json::object();
    const auto found = json_.find(key);
    if (found != json_.end() && found->is_object()) return *found;
    if (missing_.empty()) missing_ = key;
    return kNothing;
  }
  const std::string& missing() const { return missing_; }

 private:
  const Json& json_;
  std::string missing_;
};

std::optional<PredraftCounts> read_predraft(const Json& json) {
  const auto found = json.find("predraft");
  if (found == json.end() || !found->is_object()) return std::nullopt;
  PredraftCounts counts;
  for (const auto& [name, field] : kPredraftFields) {
    if (found->contains(name) && (*found)[name].is_number()) {
      counts.*field = (*found)[name].get<double>();
    }
  }
  const auto partial = found->find("partial_by_length");
  if (partial != found->end() && partial->is_array()) {
    for (const Json& count : *partial) {
      counts.partial_by_length.push_back(count.is_number() ? count.get<double>() : 0);
    }
  }
  return counts;
}

}  // namespace

PredraftCounts& PredraftCounts::operator+=(const PredraftCounts& other) {
  for (const auto& [name, field] : kPredraftFields) this->*field += other.*field;
  if (partial_by_length.size() < other.partial_by_length.size()) {
    partial_by_length.resize(other.partial_by_length.size());
  }
  for (std::size_t i = 0; i < other.partial_by_length.size(); ++i) {
    partial_by_length[i] += other.partial_by_length[i];
  }
  return *this;
}

AnswerFigures& AnswerFigures::operator+=(const AnswerFigures& other) {
  for (const auto field : kSummed) this->*field += other.*field;
  if (other.predraft) {
    if (!predraft) predraft.emplace();
    *predraft += *other.predraft;
  }
  return *this;
}

std::optional<double> AnswerFigures::tpot_ms() const {
  return ratio(decode_ms, tokens);
}

std::optional<double> AnswerFigures::tau() const {
  return ratio(tokens, passes);
}

std::optional<double> AnswerFigures::rows_per_pass() const {
  return ratio(rows, passes);
}

std::optional<double> AnswerFigures::pass_ms() const {
  return ratio(compute_ms, passes);
}

std::optional<double> AnswerFigures::acceptance() const {
  return ratio(accepted, drafted);
}

std::optional<double> AnswerFigures::passes_per_token() const {
  return ratio(passes, tokens);
}

std::optional<double> AnswerFigures::miss_rate() const {
  if (!predraft) return std::nullopt;
  return ratio(predraft->misses, predraft->verdicts);
}

std::optional<double> AnswerFigures::left_rate() const {
  if (!predraft) return std::nullopt;
  return ratio(predraft->missing_tokens - predraft->late_hits / 2, predraft->wanted_tokens);
}

Result<EdgeAnswer> read_edge_answer(std::string_view line, double time_scale) {
  OUTRIDER_ASSIGN_OR_RETURN(const Json json, parse_json(line, "the last line of outrider-edge"));
  if (!json.is_object() || !json.contains("ids") || !json["ids"].is_array()) {
    return data_loss("the last line of outrider-edge holds no \"ids\"");
  }
  EdgeAnswer answer;
  for (const Json& id : json["ids"]) {
    if (!id.is_number_integer()) return data_loss("outrider-edge: an id is no number");
    answer.ids.push_back(id.get<TokenId>());
  }
  Fields fields(json);
  Fields first(fields.object("first_verdict"));
  AnswerFigures& figures = answer.figures;
  figures.decode_ms = fields.number("decode_ms") * time_scale;
  figures.all_tokens = fields.number("completion_tokens");
  figures.tokens = figures.all_tokens - first.number("tokens");
  figures.passes = std::max(fields.number("target_passes") - 1, 0.0);
  figures.rows = fields.number("target_rows") - first.number("rows");
  figures.compute_ms =
      (fields.number("target_compute_ms") - first.number("compute_ms")) * time_scale;
  // Null for a stream that ended without its Usage.
  const bool has_cached = json.contains("cached_tokens") && json["cached_tokens"].is_number();
  const double cached = has_cached ? json["cached_tokens"].get<double>() : 0;
  // The prefill's pass may have taken nodes too: its rows beyond the prompt's.
  const double prompt_rows = fields.number("prompt_tokens") - cached;
  const double first_nodes = std::max(first.number("rows") - prompt_rows, 0.0);
  const double first_accepted = first_nodes > 0 ? first.number("tokens") - 1 : 0;
  figures.rounds = fields.number("spec_decode_num_drafts") - (first_nodes > 0 ? 1 : 0);
  figures.drafted = fields.number("spec_decode_num_draft_tokens") - first_nodes;
  figures.accepted = fields.number("spec_decode_num_accepted_tokens") - first_accepted;
  figures.draft_steps = fields.number("draft_steps");
  figures.draft_ms = fields.number("draft_ms") * time_scale;
  Fields bytes(fields.object("bytes"));
  figures.payload_up = bytes.number("payload_up");
  figures.payload_down = bytes.number("payload_down");
  figures.predraft = read_predraft(json);
  for (const Fields* part : {&fields, &first, &bytes}) {
    if (part->missing().empty()) continue;
    return data_loss("the last line of outrider-edge lacks the figure \"" + part->missing() +
                     "\"; is it of the same build?");
  }
  if (json.contains("speculation") && json["speculation"].is_string()) {
    answer.speculation = json["speculation"].get<std::string>();
  }
  return answer;
}

Json to_json(const PredraftCounts& counts) {
  Json json = Json::object();
  for (const auto& [name, field] : kPredraftFields) json[name] = counts.*field;
  json["partial_by_length"] = counts.partial_by_length;
  return json;
}

}  // namespace outrider
