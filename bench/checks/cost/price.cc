// Prints the price of a million tokens, and where drafting on the edge stops paying. The costs
// follow from the latency law at one device and round trip, or from the cells of a report.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "bench/checks/checks.h"
#include "bench/cost/break_even.h"
#include "bench/cost/cell_cost.h"
#include "bench/paces/paces.h"
#include "bench/report/cost_report.h"
#include "bench/report/run_report.h"
#include "common/base/files.h"
#include "common/base/json_record.h"
#include "common/serving/prices/prices.h"

namespace outrider {
namespace {

constexpr const char* kPlain = "ar";

struct PriceOptions {
  std::string prices;
  std::string report;
  std::string pace = "table9-5ms";
  std::optional<double> round_trip_ms;  // default: the pace's own
  ModelledRound round;
};

// The values of a report's cell that are priced.
struct PricedCell {
  std::string setting;
  std::string device;
  std::string variant;
  bool valid = false;
  double round_trip_ms = 0;
  DraftPlace draft_place = DraftPlace::kEdge;
  AnswerUse use;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("setting", self.setting);
    field("device", self.device);
    field("variant", self.variant);
    field("valid", self.valid);
    field("round_trip_ms", self.round_trip_ms);
    field("draft_place", self.draft_place);
    field("use", self.use);
  }
};

Json json_of(std::optional<double> value) {
  return value ? Json(*value) : Json();
}

Result<std::vector<CostedCell>> cells_of(const std::string& path, const Prices& prices) {
  OUTRIDER_ASSIGN_OR_RETURN(const Json report, read_report(path));
  std::vector<CostedCell> cells;
  for (const Json& json : report["cells"]) {
    OUTRIDER_ASSIGN_OR_RETURN(const PricedCell cell,
                              read_json<PricedCell>(json, path + ", a cell"));
    if (!cell.valid) continue;
    cells.push_back({.setting = cell.setting,
                     .device = cell.device,
                     .variant = cell.variant,
                     .round_trip_ms = cell.round_trip_ms,
                     .place = cell.draft_place,
                     .use = cell.use,
                     .cost = cell_cost(prices, cell.draft_place, cell.use)});
  }
  return cells;
}

void price_report(std::span<const CostedCell> cells, Json& figures) {
  TextTable table = cost_table(cells);
  std::printf("dollars per million output tokens\n%s\n", to_plain_text(table, 2).c_str());
  const std::vector<BreakEven> found = break_evens(cells, kPlain);
  std::printf("%s\n%s", kBreakEvenCaption, to_plain_text(break_even_table(found), 2).c_str());
  Json priced = Json::array();
  for (const CostedCell& cell : cells) {
    Json json = to_json(cell.cost);
    json["setting"] = cell.setting;
    json["variant"] = cell.variant;
    priced.push_back(std::move(json));
  }
  Json stops = Json::array();
  for (const BreakEven& one : found) stops.push_back(to_json(one));
  figures["cells"] = std::move(priced);
  figures["break_even"] = std::move(stops);
}

// ------------------------------------------------------------------------------- by the law

// Where drafting stops paying for one kind of cost, in words and as JSON.
struct ModelledBreakEven {
  std::string acceptance = "–";
  std::string round_trip = "–";
  Json json = Json::object();
};

ModelledBreakEven stops_at(CostKind kind, const ModelledPair& pair, const Prices& prices) {
  ModelledBreakEven found;
  const auto plain = pair.plain_cost.of(kind), edge = pair.edge_cost.of(kind);
  if (!plain || !edge) return found;
  const auto needed = needed_tokens(*edge, pair.edge, *plain);
  if (needed) {
    found.acceptance = number_or_dash(needed->acceptance, "{:.2f}");
    if (!needed->acceptance) found.acceptance = "never";
    found.json["acceptance"] = json_of(needed->acceptance);
    found.json["tokens_per_pass"] = needed->tokens_per_pass;
  }
  if (const auto per_ms = pair.cost_of_a_round_trip_ms(kind, prices)) {
    const auto longest =
        break_even_round_trip_ms(edge->total(), plain->total(), pair.round_trip_ms, *per_ms);
    found.round_trip = longest ? fmt::format("{:.0f} ms", *longest) : "never";
    found.json["round_trip_ms"] = json_of(longest);
  } else if (needed) {
    found.round_trip = edge->total() <= plain->total() ? "any" : "never";
  }
  return found;
}

void price_law(const ModelledPair& pair, const Prices& prices, Json& figures) {
  TextTable table{.heads = {"per million output tokens", "plain", "drafting",
                            "pays from acceptance", "up to a round trip of"},
                  .rows = {}};
  Json kinds = Json::object();
  for (const auto& [kind, name] : enum_names<CostKind>) {
    const auto plain = pair.plain_cost.total(kind), edge = pair.edge_cost.total(kind);
    if (!plain && !edge) continue;
    ModelledBreakEven stops = stops_at(kind, pair, prices);
    const bool is_time = kind == CostKind::kTime;
    table.rows.push_back({is_time ? "time, ms per token" : title_of(kind),
                          number_or_dash(plain, "{:.4g}"), number_or_dash(edge, "{:.4g}"),
                          stops.acceptance, stops.round_trip});
    stops.json["plain"] = json_of(plain);
    stops.json["drafting"] = json_of(edge);
    kinds[name] = std::move(stops.json);
  }
  std::printf("%s", to_plain_text(table, 1).c_str());
  std::optional<double> cloud;
  if (prices.draft) {
    cloud = cloud_draft_cost(prices.api, *prices.draft, pair.shape);
    std::printf("API, by the pass, with the draft in the cloud too: %.4g\n", *cloud);
  }
  figures["modelled"] = std::move(kinds);
  figures["cloud_sd_by_the_pass"] = json_of(cloud);
}

Result<ModelledPair> pair_of(const PriceOptions& options, const Prices& prices) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<PaperPace> paces, find_paces({options.pace}));
  if (paces.size() != 1 || paces.front().pass_ms <= 0) {
    return invalid_argument("--pace " + options.pace + ": expected one paced device");
  }
  ModelledRound round = options.round;
  round.round_trip_ms = options.round_trip_ms.value_or(2 * paces.front().one_way_ms);
  return modelled_pair(round, step_curve(paces.front()).ms(1), pass_curve(paces.front()), prices);
}

Result<CheckOutcome> run_price(const PriceOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const Prices prices, read_prices(options.prices));
  CheckOutcome outcome{.passed = true};
  outcome.figures = {{"prices_of", prices.date}};
  std::printf("prices of %s (%s)\n\n", prices.date.c_str(), options.prices.c_str());
  if (options.report.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(const ModelledPair pair, pair_of(options, prices));
    const ModelledRound& round = options.round;
    std::printf(
        "modelled: rounds of %.3g drafted tokens that yield %.3g, at %s over a round trip of %.3g "
        "ms, each waited for\n",
        round.gamma, round.tau, options.pace.c_str(), pair.round_trip_ms);
    price_law(pair, prices, outcome.figures);
    return outcome;
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<CostedCell> cells, cells_of(options.report, prices));
  price_report(cells, outcome.figures);
  if (cells.empty()) outcome.mark_inconclusive("the report has no valid cell");
  return outcome;
}

}  // namespace

void add_price_check(CheckList& checks) {
  auto options = std::make_shared<PriceOptions>();
  ModelledRound& round = options->round;
  CLI::App* command = checks.add(
      "price",
      "Dollars per million tokens (API, own GPU, link, device), and the round trip and acceptance "
      "at which edge drafting stops paying",
      [options] { return run_price(*options); });
  command
      ->add_option("--price-file", options->prices,
                   "TOML: date, [api] input, cached-input, output; [draft]; [gpu] "
                   "dollars-per-hour; [link] dollars-per-mb; [device] watts, dollars-per-kwh. "
                   "bench/cost/files/example-prices.toml is one")
      ->required();
  CLI::Option* report =
      command->add_option("--report", options->report, "A report.json of run, priced cell by cell");
  const auto add = [&](const char* flag, auto& value, const char* what) {
    return command->add_option(flag, value, what)->check(CLI::Range(0.0, 1e7))->excludes(report);
  };
  command->add_option("--pace", options->pace, "Without --report: the device whose times are used")
      ->excludes(report);
  add("--round-trip-ms", options->round_trip_ms, "Round trip (2 T_c), instead of the pace's");
  add("--input-tokens", round.input_tokens, "Tokens of the prompt");
  add("--output-tokens", round.output_tokens, "Tokens of the answer")->check(CLI::Range(1.0, 1e7));
  add("--tau", round.tau, "Tokens that a round yields")->check(CLI::Range(1.0, 65.0));
  add("--gamma", round.gamma, "Tokens drafted for a round")->check(CLI::Range(1.0, 64.0));
  add("--round-bytes", round.round_bytes, "Bytes of a round, both ways");
  add("--token-bytes", round.token_bytes, "Bytes of a token of plain decoding, both ways");
}

}  // namespace outrider
