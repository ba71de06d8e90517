// adapters.json. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <optional>

#include "common/base/json.h"
#include "common/base/sha256.h"
#include "common/decoding/exits/adapters.h"
#include "common/engine/model/format/config_fields.h"

namespace outrider {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr const char* kFormat = "outrider exit adapters 2";
constexpr std::size_t kMaxKnots = 256;
constexpr std::size_t kMaxCalibrations = 16;
constexpr std::size_t kMaxMeasurements = 256;
constexpr std::int64_t kMaxSize = 1 << 20;  // of hidden, bottleneck
constexpr double kMaxSlope = 1e6;
constexpr const char* kKindNames[kRowKinds] = {"drafted", "corrected", "beyond"};

void refuse_unknown(FieldReader& in, std::initializer_list<const char*> known) {
  if (!in.object().is_object()) return;
  for (const auto& [key, value] : in.object().items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    in.fail(invalid_argument(in.what() + ": unknown field " + printable(key)));
  }
}

// The array under `key` with at most `most` entries; null after a failure.
const Json* array(FieldReader& in, const char* key, std::size_t most) {
  if (!in.status().ok()) return nullptr;
  const auto found = in.object().find(key);
  if (found != in.object().end() && found->is_array() && found->size() <= most) return &*found;
  in.fail(invalid_argument(in.what() + ": " + key + " must be a list of at most " +
                           std::to_string(most)));
  return nullptr;
}

// Whole numbers low .. high in rising order.
template <typename T>
std::vector<T> rising(FieldReader& in, const char* key, std::size_t most, std::int64_t low,
                      std::int64_t high) {
  std::vector<T> values;
  const Json* list = array(in, key, most);
  if (list == nullptr) return values;
  for (const Json& entry : *list) {
    const bool whole = entry.is_number_integer();
    const std::int64_t value = whole && !entry.is_number_unsigned() ? entry.get<std::int64_t>()
                               : whole ? static_cast<std::int64_t>(std::min<std::uint64_t>(
                                             entry.get<std::uint64_t>(), std::uint64_t{1} << 62))
                                       : low - 1;
    if (value < low || value > high || (!values.empty() && value <= values.back())) {
      in.fail(invalid_argument(in.what() + ": " + key + "[" + std::to_string(values.size()) +
                               "] must be a whole number from " + std::to_string(low) + " to " +
                               std::to_string(high) + ", larger than the one before"));
      return {};
    }
    values.push_back(static_cast<T>(value));
  }
  return values;
}

// A list of exactly so many finite numbers.
template <std::size_t kCount>
std::optional<std::array<double, kCount>> numbers(const Json& from, double largest) {
  if (!from.is_array() || from.size() != kCount) return std::nullopt;
  std::array<double, kCount> values;
  for (std::size_t i = 0; i < kCount; ++i) {
    if (!from[i].is_number() || !(std::abs(from[i].get<double>()) <= largest)) return std::nullopt;
    values[i] = from[i].get<double>();
  }
  return values;
}

void read_knots(FieldReader& in, std::vector<Knot>& knots) {
  const Json* list = array(in, "outcome", kMaxKnots);
  if (list == nullptr) return;
  for (const Json& entry : *list) {
    const auto point = numbers<2>(entry, 1.0);
    const Knot last = knots.empty() ? Knot{-1, 0} : knots.back();
    if (!point || (*point)[0] < 0 || (*point)[0] <= last.x || (*point)[1] < last.y) {
      return in.fail(invalid_argument(in.what() + ": outcome[" + std::to_string(knots.size()) +
                                      "] must be [x, y] from 0 to 1, x larger and y no smaller "
                                      "than before"));
    }
    knots.push_back({(*point)[0], (*point)[1]});
  }
}

Result<Calibration> read_calibration(const Json& json, const std::string& what) {
  FieldReader in(json, what);
  refuse_unknown(in, {"temperature", "prior", "drafted", "corrected", "beyond", "outcome"});
  Calibration calibration;
  calibration.temperature = in.real("temperature", 0, 100);
  const auto given = json.find("prior");
  const auto prior = given == json.end() ? std::nullopt : numbers<2>(*given, kMaxMargin);
  if (prior) {
    calibration.prior = {(*prior)[0], (*prior)[1]};
  } else {
    in.fail(invalid_argument(what + ": prior must be [offset, odds slope]"));
  }
  for (std::size_t kind = 0; kind < kRowKinds && in.status().ok(); ++kind) {
    const auto found = json.find(kKindNames[kind]);
    const auto fit = found == json.end() ? std::nullopt : numbers<4>(*found, kMaxSlope);
    if (!fit || (*fit)[0] < 0) {
      in.fail(invalid_argument(
          what + ": " + kKindNames[kind] +
          " must be [slope, spread slope, odds slope, offset], the first not negative"));
      break;
    }
    calibration.rows[kind] = {(*fit)[0], (*fit)[1], (*fit)[2], (*fit)[3]};
  }
  read_knots(in, calibration.outcome);
  if (!in.status().ok()) return in.status();
  return calibration;
}

Result<ExitMeasurement> read_measurement(const Json& json, const std::string& what) {
  FieldReader in(json, what);
  refuse_unknown(in, {"text", "temperature", "passes", "named", "mean_confidence",
                      "error_uncalibrated", "error"});
  ExitMeasurement one;
  one.text = in.text("text");
  one.temperature = in.real("temperature", 0, 100);
  one.passes = in.integer("passes", 0, std::int64_t{1} << 53);
  one.named = in.real("named", 0, 1);
  one.mean_confidence = in.real("mean_confidence", 0, 1);
  one.error_uncalibrated = in.real("error_uncalibrated", 0, 1);
  one.error = in.real("error", 0, 1);
  if (!in.status().ok()) return in.status();
  return one;
}

// Reads each entry of a list by `read`.
template <typename T, typename Read>
void read_list(FieldReader& in, const char* key, std::size_t most, const Read& read,
               std::vector<T>& out) {
  const Json* list = array(in, key, most);
  if (list == nullptr) return;
  for (const Json& entry : *list) {
    Result<T> one = read(entry, in.what() + ", " + key + "[" + std::to_string(out.size()) + "]");
    if (!one.ok()) return in.fail(one.status());
    out.push_back(*std::move(one));
  }
}

Result<ExitAdapter> read_exit(const Json& json, const std::string& what) {
  FieldReader in(json, what);
  refuse_unknown(in, {"layer", "bottleneck", "own_head", "cost", "calibration", "measured"});
  ExitAdapter exit;
  exit.layer = static_cast<std::int32_t>(in.integer("layer", 1, kMaxSize));
  const bool own_head = in.flag("own_head", false);
  exit.bottleneck = static_cast<std::int32_t>(own_head ? in.integer("bottleneck", 0, 0)
                                                       : in.integer("bottleneck", 1, kMaxSize));
  exit.cost = in.real("cost", 0, 1e6);
  read_list(in, "calibration", kMaxCalibrations, read_calibration, exit.calibration);
  read_list(in, "measured", kMaxMeasurements, read_measurement, exit.measured);
  if (!in.status().ok()) return in.status();
  const bool greedy = std::any_of(exit.calibration.begin(), exit.calibration.end(),
                                  [](const Calibration& one) { return one.temperature == 0; });
  if (exit.calibration.empty() || greedy) return exit;
  return invalid_argument(what + ": calibration has no entry of temperature 0");
}

void read_target(FieldReader& in, ExitAdapters& adapters) {
  if (!in.has("target")) return in.fail(invalid_argument(in.what() + ": target is missing"));
  FieldReader target(in.object()["target"], in.what() + ", target");
  refuse_unknown(target, {"fingerprint", "hidden_size", "num_layers", "vocab_size"});
  adapters.fingerprint = target.text("fingerprint");
  adapters.hidden_size = static_cast<std::int32_t>(target.integer("hidden_size", 1, kMaxSize));
  adapters.num_layers = static_cast<std::int32_t>(target.integer("num_layers", 2, 10'000));
  adapters.vocab_size = static_cast<std::int32_t>(target.integer("vocab_size", 1, 1 << 24));
  if (target.status().ok() && !is_sha256_hex(adapters.fingerprint)) {
    target.fail(invalid_argument(target.what() + ": fingerprint must be 64 hex digits"));
  }
  if (!target.status().ok()) in.fail(target.status());
}

// Checks the fields against each other.
Status check_whole(const ExitAdapters& adapters, const std::string& what) {
  if (adapters.exits.empty()) return invalid_argument(what + ": exits is empty");
  std::int32_t last = 0;
  for (const ExitAdapter& exit : adapters.exits) {
    if (exit.layer <= last || exit.layer >= adapters.num_layers) {
      return invalid_argument(what + ": exits: layer " + std::to_string(exit.layer) +
                              " must be larger than the one before and below num_layers " +
                              std::to_string(adapters.num_layers));
    }
    last = exit.layer;
  }
  for (const std::int32_t layer : adapters.chosen) {
    if (std::none_of(adapters.exits.begin(), adapters.exits.end(),
                     [&](const ExitAdapter& exit) { return exit.layer == layer; })) {
      return invalid_argument(what + ": chosen: no exit after layer " + std::to_string(layer));
    }
  }
  return {};
}

OrderedJson to_json(const Calibration& calibration) {
  const DraftPrior& prior = calibration.prior;
  OrderedJson json = {{"temperature", calibration.temperature}};
  json["prior"] = {prior.offset, prior.odds_slope};
  for (std::size_t kind = 0; kind < kRowKinds; ++kind) {
    const Logistic& fit = calibration.rows[kind];
    json[kKindNames[kind]] = {fit.slope, fit.spread_slope, fit.odds_slope, fit.offset};
  }
  json["outcome"] = OrderedJson::array();
  for (const Knot& knot : calibration.outcome) json["outcome"].push_back({knot.x, knot.y});
  return json;
}

OrderedJson to_json(const ExitMeasurement& one) {
  return {{"text", one.text},
          {"temperature", one.temperature},
          {"passes", one.passes},
          {"named", one.named},
          {"mean_confidence", one.mean_confidence},
          {"error_uncalibrated", one.error_uncalibrated},
          {"error", one.error}};
}

}  // namespace

Result<AdapterIndex> parse_adapter_index(std::string_view text, const std::string& what) {
  OUTRIDER_ASSIGN_OR_RETURN(const Json json, parse_json(text, what));
  FieldReader in(json, what);
  refuse_unknown(in, {"format", "target", "weights_sha256", "shortlist", "chosen", "exits"});
  if (in.status().ok() && in.text("format") != kFormat) {
    in.fail(invalid_argument(what + ": format must be \"" + kFormat +
                             "\". Remedy: write it again with this version's 'outrider-train exits "
                             "--resume'"));
  }
  AdapterIndex index;
  ExitAdapters& adapters = index.adapters;
  if (in.status().ok()) read_target(in, adapters);
  index.weights_digest = in.text("weights_sha256");
  if (in.status().ok() && !is_sha256_hex(index.weights_digest)) {
    in.fail(invalid_argument(what + ": weights_sha256 must be 64 hex digits"));
  }
  adapters.shortlist = rising<TokenId>(in, "shortlist", 1 << 20, 0, adapters.vocab_size - 1);
  adapters.chosen = rising<std::int32_t>(in, "chosen", 10'000, 1, adapters.num_layers - 1);
  read_list(in, "exits", 10'000, read_exit, adapters.exits);
  if (!in.status().ok()) return in.status();
  OUTRIDER_RETURN_IF_ERROR(check_whole(adapters, what));
  return index;
}

std::string adapter_index_text(const AdapterIndex& index) {
  const ExitAdapters& adapters = index.adapters;
  OrderedJson json = {{"format", kFormat},
                      {"target",
                       {{"fingerprint", adapters.fingerprint},
                        {"hidden_size", adapters.hidden_size},
                        {"num_layers", adapters.num_layers},
                        {"vocab_size", adapters.vocab_size}}},
                      {"weights_sha256", index.weights_digest},
                      {"shortlist", adapters.shortlist},
                      {"chosen", adapters.chosen},
                      {"exits", OrderedJson::array()}};
  for (const ExitAdapter& exit : adapters.exits) {
    OrderedJson one = {{"layer", exit.layer},
                       {"bottleneck", exit.bottleneck},
                       {"cost", exit.cost},
                       {"calibration", OrderedJson::array()},
                       {"measured", OrderedJson::array()}};
    if (exit.bottleneck == 0) one["own_head"] = true;
    for (const Calibration& each : exit.calibration) one["calibration"].push_back(to_json(each));
    for (const ExitMeasurement& each : exit.measured) one["measured"].push_back(to_json(each));
    json["exits"].push_back(std::move(one));
  }
  return json.dump(1) + "\n";
}

}  // namespace outrider
