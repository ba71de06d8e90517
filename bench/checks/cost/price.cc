// What a million tokens cost, and where drafting on the edge stops paying.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "bench/checks/checks.h"
#include "bench/cost/token_cost.h"
#include "bench/report/run_report.h"
#include "common/base/files.h"
#include "common/base/json_record.h"
#include "common/prices/prices.h"

namespace outrider {
namespace {

constexpr std::int64_t kMaxReportBytes = std::int64_t{1} << 30;

struct PriceOptions {
  std::string prices;
  std::string report;
  AnswerShape shape = {
      .input_tokens = 100, .output_tokens = 500, .tokens_per_pass = 2.5, .drafted_per_pass = 4};
};

// Of a cell of a report, what is priced.
struct PricedCell {
  std::string setting;
  std::string variant;
  std::string strategy;
  bool valid = false;
  double spec_draft_n_max = 0;
  std::optional<double> tokens_per_pass;
  std::optional<double> target_ms_per_token;
  std::optional<double> draft_ms_per_token;
  std::optional<double> wire_up_per_token;
  std::optional<double> wire_down_per_token;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("setting", self.setting);
    field("variant", self.variant);
    field("strategy", self.strategy);
    field("valid", self.valid);
    field("spec_draft_n_max", self.spec_draft_n_max);
    field("tokens_per_pass", self.tokens_per_pass);
    field("target_ms_per_token", self.target_ms_per_token);
    field("draft_ms_per_token", self.draft_ms_per_token);
    field("wire_up_per_token", self.wire_up_per_token);
    field("wire_down_per_token", self.wire_down_per_token);
  }
};

Json json_of(std::optional<double> value) {
  return value ? Json(*value) : Json();
}

std::string dollars(std::optional<double> value) {
  return value ? fmt::format("{:10.4f}", *value) : fmt::format("{:>10}", "-");
}

Json price_of(const PricedCell& cell, const Prices& prices, AnswerShape shape) {
  const bool plain = cell.strategy == "ar";
  shape.tokens_per_pass = cell.tokens_per_pass.value_or(1);
  shape.drafted_per_pass = plain ? 0 : cell.spec_draft_n_max;
  const double alone = plain_cost(prices.api, shape);
  const ApiCost api = plain ? ApiCost{alone, alone} : edge_cost(prices.api, shape);
  const OwnCost own = own_cost(
      prices, {.target_ms = cell.target_ms_per_token.value_or(0),
               .draft_ms = cell.draft_ms_per_token.value_or(0),
               .bytes = cell.wire_up_per_token.value_or(0) + cell.wire_down_per_token.value_or(0)});
  std::printf("%-28s %-10s %10.4f %10.4f %s %s %s\n", cell.setting.c_str(), cell.variant.c_str(),
              api.by_the_pass, api.stateless, dollars(own.gpu).c_str(), dollars(own.link).c_str(),
              dollars(own.device).c_str());
  return {{"setting", cell.setting},
          {"variant", cell.variant},
          {"api_by_the_pass", api.by_the_pass},
          {"api_stateless", api.stateless},
          {"own_gpu", json_of(own.gpu)},
          {"link", own.link},
          {"device", own.device}};
}

Result<Json> price_report(const PriceOptions& options, const Prices& prices) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_file(options.report, kMaxReportBytes));
  OUTRIDER_ASSIGN_OR_RETURN(const Json report, parse_json(text, options.report));
  if (report.value("schema", "") != kReportSchema) {
    return invalid_argument(options.report + ": its schema is not " + kReportSchema);
  }
  std::printf("%-28s %-10s %10s %10s %10s %10s %10s\n", "dollars per million tokens", "", "by pass",
              "stateless", "own GPU", "link", "device");
  Json cells = Json::array();
  for (const Json& json : report["cells"]) {
    OUTRIDER_ASSIGN_OR_RETURN(const PricedCell cell,
                              read_json<PricedCell>(json, options.report + ", a cell"));
    if (cell.valid) cells.push_back(price_of(cell, prices, options.shape));
  }
  return cells;
}

Json price_shape(const AnswerShape& shape, const Prices& prices) {
  const double alone = plain_cost(prices.api, shape);
  const ApiCost edge = edge_cost(prices.api, shape);
  std::optional<double> cloud;
  if (prices.draft) cloud = cloud_draft_cost(prices.api, *prices.draft, shape);
  const auto even = break_even_tokens_per_pass(prices.api, shape);
  std::printf("API, dollars per million tokens (prices of %s):\n", prices.date.c_str());
  std::printf("  target alone                     %10.4f\n", alone);
  std::printf("  draft in the cloud, by the pass  %s\n", dollars(cloud).c_str());
  std::printf("  draft on the edge, by the pass   %10.4f (%+.0f %%)\n", edge.by_the_pass,
              100 * (edge.by_the_pass / alone - 1));
  std::printf("  draft on the edge, stateless     %10.4f (%+.0f %%)\n", edge.stateless,
              100 * (edge.stateless / alone - 1));
  if (even) {
    std::printf("  stateless billing pays from %.2f tokens a pass on\n", *even);
  } else {
    std::printf("  stateless billing never pays\n");
  }
  return {{"ar", alone},
          {"cloud_sd_by_the_pass", json_of(cloud)},
          {"edge_by_the_pass", edge.by_the_pass},
          {"edge_stateless", edge.stateless},
          {"break_even_tokens_per_pass", json_of(even)}};
}

Result<CheckOutcome> run_price(const PriceOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const Prices prices, read_prices(options.prices));
  CheckOutcome outcome{.passed = true};
  outcome.figures = {{"prices_of", prices.date},
                     {"dollars_per_million_tokens", price_shape(options.shape, prices)}};
  if (options.report.empty()) return outcome;
  OUTRIDER_ASSIGN_OR_RETURN(outcome.figures["cells"], price_report(options, prices));
  return outcome;
}

}  // namespace

void add_price_check(CheckList& checks) {
  auto options = std::make_shared<PriceOptions>();
  AnswerShape& shape = options->shape;
  CLI::App* command =
      checks.add("price", "Dollars per million tokens: API, own GPU, link, device; break-even",
                 [options] { return run_price(*options); });
  command
      ->add_option("--price-file", options->prices,
                   "TOML: date, [api] input, cached-input, output; [draft]; [gpu] "
                   "dollars-per-hour; [link] dollars-per-mb; [device] watts, dollars-per-kwh")
      ->required();
  command->add_option("--report", options->report, "A report.json of run, priced cell by cell");
  const auto add = [&](const char* flag, double& value, const char* what) {
    command->add_option(flag, value, what)->check(CLI::Range(0.0, 1e7));
  };
  add("--input-tokens", shape.input_tokens, "Tokens of the prompt");
  command->add_option("--output-tokens", shape.output_tokens, "Tokens of the answer")
      ->check(CLI::Range(1.0, 1e7));
  command->add_option("--tau", shape.tokens_per_pass, "Tokens that a pass brings")
      ->check(CLI::Range(1.0, 65.0));
  add("--gamma", shape.drafted_per_pass, "Tokens drafted for a pass");
}

}  // namespace outrider
