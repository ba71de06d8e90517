// The FSD paper's tables and figures that depend on its exits. SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <cstdio>
#include <map>
#include <utility>
#include <vector>

#include "bench/checks/paper/reproduce_runs.h"
#include "bench/harness/summary.h"
#include "sim/synthetic_pair.h"

namespace outrider {

// ------------------------------------------------------------------------------------- table 7

Status reproduce_table7(const ReproduceOptions& options, Findings& findings) {
  const std::vector<int> workers = {3, 5, 10};
  std::vector<GridVariant> variants;
  for (const PaperQueues& row : paper_table7()) {
    for (const int count : workers) {
      GridVariant variant = variant_of(Strategy::kFsd);
      variant.client_queue = parse_name<QueueOrder>(row.client);
      variant.server_queue = parse_name<ReportQueue>(row.server);
      variant.workers = count;
      variant.name = fmt::format("{}/{}/{}", row.client, row.server, count);
      variants.push_back(std::move(variant));
    }
  }
  const PaperSpeed& gsm8k = gsm8k_on_rtx();
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<GridResult> demo,
                            demo_run(options, {"rtx-68m-7b"}, variants));
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<GridResult> synthetic,
                            synthetic_run(options, {&gsm8k, 1}, std::move(variants)));
  // In percent.
  const auto misses = [](const std::optional<GridResult>& run, const std::string& setting,
                         const std::string& variant) {
    std::optional<double> rate;
    const GridCell* cell = run ? run->find(setting, variant) : nullptr;
    if (cell != nullptr) rate = not_begun(sum_of(cell->answers));
    return rate ? std::optional(100 * *rate) : std::nullopt;
  };
  std::printf("table 7: misses, %%, with 3, 5 and 10 workers\n%-10s %-10s %24s %24s %24s\n",
              "client", "server", "printed", "synthetic", "demo pair");
  for (const PaperQueues& row : paper_table7()) {
    Json ours = Json::array(), made_up = Json::array();
    std::string shown_ours, shown_made_up;
    for (const int count : workers) {
      const std::string name = fmt::format("{}/{}/{}", row.client, row.server, count);
      const auto real = misses(demo, "rtx-68m-7b printed", name);
      const auto synthetic_rate = misses(synthetic, synthetic_setting(gsm8k), name);
      ours.push_back(json_of(real));
      made_up.push_back(json_of(synthetic_rate));
      shown_ours += " " + shown(real);
      shown_made_up += " " + shown(synthetic_rate);
    }
    std::printf("%-10s %-10s %8.2f%8.2f%8.2f %s %s\n", std::string(row.client).c_str(),
                std::string(row.server).c_str(), row.misses[0], row.misses[1], row.misses[2],
                shown_made_up.c_str(), shown_ours.c_str());
    findings.rows.push_back({{"client", row.client},
                             {"server", row.server},
                             {"printed", {row.misses[0], row.misses[1], row.misses[2]}},
                             {"synthetic", std::move(made_up)},
                             {"demo", std::move(ours)}});
  }
  findings.differences.push_back(
      "neither orders nor workers matter here as they do in table 7, not with 31 exits either: an "
      "exit "
      "that repeats what was said sends nothing, so that few hypotheses wait, and one step of the "
      "draft "
      "serves several of them");
  return {};
}

// ------------------------------------------------------------------------------------ figure 4

namespace {

std::vector<GridVariant> figure4_variants() {
  std::vector<GridVariant> variants = {variant_of(Strategy::kAr)};
  for (const Strategy strategy : {Strategy::kSd, Strategy::kFsd}) {
    for (int gamma = 1; gamma <= 10; ++gamma) {
      GridVariant variant = variant_of(strategy);
      if (strategy == Strategy::kFsd) variant = with_paper_workers("fsd");
      variant.gamma = gamma;
      variant.name += fmt::format(" γ={}", gamma);
      variants.push_back(std::move(variant));
    }
  }
  for (const int workers : {1, 2, 3, 5, 10, 15, 20, 30}) {
    GridVariant variant = variant_of(Strategy::kFsd);
    variant.name = fmt::format("fsd, {} workers", workers);
    variant.workers = workers;
    variant.gamma = kPaperDraftLength;
    variants.push_back(std::move(variant));
  }
  return variants;
}

}  // namespace

Status reproduce_figure4(const ReproduceOptions& options, Findings& findings) {
  const std::vector<GridVariant> variants = figure4_variants();
  const PaperSpeed& gsm8k = gsm8k_on_rtx();
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<GridResult> demo,
                            demo_run(options, {"rtx-68m-7b"}, variants));
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<GridResult> synthetic,
                            synthetic_run(options, {&gsm8k, 1}, variants));
  std::printf("figure 4 at rtx-68m-7b (printed pass times)\n%-18s %24s %24s\n", "",
              "synthetic: over ar, sd, misses", "demo pair: over ar, sd, misses");
  struct Point {
    std::optional<double> over_ar, over_sd, misses;
  };
  const auto point = [](const std::optional<GridResult>& run, const std::string& setting,
                        const GridVariant& variant) {
    Point at;
    if (!run) return at;
    const std::string sd = fmt::format("sd γ={}", variant.gamma);
    at.over_ar = value_of(speedup_at(*run, setting, variant.name, "ar"));
    at.over_sd = value_of(speedup_at(*run, setting, variant.name, sd));
    if (variant.strategy == Strategy::kFsd) {
      at.misses = not_begun(sum_of(run->find(setting, variant.name)->answers));
    }
    return at;
  };
  const auto json = [](const Point& at) {
    return Json{{"over_ar", json_of(at.over_ar)},
                {"over_sd", json_of(at.over_sd)},
                {"misses", json_of(at.misses)}};
  };
  for (const GridVariant& variant : variants) {
    if (variant.strategy == Strategy::kAr) continue;
    const Point made_up = point(synthetic, synthetic_setting(gsm8k), variant);
    const Point pair = point(demo, "rtx-68m-7b printed", variant);
    std::printf("%-18s %s %s %s   %s %s %s\n", variant.name.c_str(), shown(made_up.over_ar).c_str(),
                shown(made_up.over_sd).c_str(), shown(made_up.misses).c_str(),
                shown(pair.over_ar).c_str(), shown(pair.over_sd).c_str(),
                shown(pair.misses).c_str());
    findings.rows.push_back(
        {{"variant", variant.name}, {"synthetic", json(made_up)}, {"demo", json(pair)}});
  }
  return {};
}

// ------------------------------------------------------------------------------------ figure 7

namespace {

// The share of all verdicts whose outcome was first named by an exit of at most each layer, and
// whose round was ready.
std::map<int, double> named_by_layer(const AnswerFigures& sum) {
  std::map<int, double> named;
  if (!sum.predraft || sum.predraft->verdicts == 0) return named;
  const PredraftStats& stats = *sum.predraft;
  double hits = 0;
  for (std::size_t exit = 0; exit < stats.hits_by_exit.size(); ++exit) {
    hits += static_cast<double>(stats.hits_by_exit[exit]);
    named[stats.exit_layers[exit]] = hits / static_cast<double>(stats.verdicts);
  }
  return named;
}

}  // namespace

Status reproduce_figure7(const ReproduceOptions& options, Findings& findings) {
  const PaperSpeed& gsm8k = gsm8k_on_rtx();
  const std::vector<GridVariant> variants = {with_paper_workers("fsd")};
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<GridResult> demo,
                            demo_run(options, {"rtx-68m-7b"}, variants));
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<GridResult> synthetic,
                            synthetic_run(options, {&gsm8k, 1}, variants));
  const ExitCurve paper = figure7_curve(), used = figure7_curve(exit_scale_of(options));
  const auto whole =
      named_by_layer(sum_of(synthetic->find(synthetic_setting(gsm8k), "fsd")->answers));
  std::printf(
      "figure 7, by layer of 32: a token as the target's, by the paper's text; as synthetic "
      "exits have it; whole outcomes named so far and drafted in time\n");
  for (int layer = 1; layer < 32; ++layer) {
    const double depth = layer / 32.0;
    const auto named = whole.find(layer);
    const std::optional<double> outcome =
        named == whole.end() ? std::nullopt : std::optional(named->second);
    std::printf("layer %2d %7.2f %7.2f %s\n", layer, paper.match_at(depth), used.match_at(depth),
                shown(outcome).c_str());
    findings.rows.push_back({{"layer", layer},
                             {"paper_token_match", paper.match_at(depth)},
                             {"paper_confidence", paper.confidence_at(depth)},
                             {"synthetic_token_match", used.match_at(depth)},
                             {"synthetic_outcome", json_of(outcome)}});
  }
  if (demo) {
    for (const auto& [layer, share] :
         named_by_layer(sum_of(demo->find("rtx-68m-7b printed", "fsd")->answers))) {
      std::printf("demo pair, exit after layer %d: whole outcomes named and drafted in time %.2f\n",
                  layer, share);
      findings.rows.push_back({{"demo_layer", layer}, {"demo_outcome", share}});
    }
  }
  return {};
}

}  // namespace outrider
