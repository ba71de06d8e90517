// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/grid.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

#include "bench/harness/server_pool.h"
#include "bench/process/output_lines.h"
#include "bench/process/process.h"

namespace outrider {
namespace {

// No answer of a sound set-up takes that long, whatever the pace.
constexpr Duration kAnswerTimeout = std::chrono::minutes(30);

std::string number(double value) {
  return fmt::format("{:.9g}", value);
}

class Grid final {
 public:
  explicit Grid(const GridPlan& plan) : plan_(plan), cores_(usable_cores()) {}

  Result<GridResult> run() {
    OUTRIDER_ASSIGN_OR_RETURN(edge_program_, sibling_program("outrider-edge"));
    OUTRIDER_RETURN_IF_ERROR(decode_references());
    for (const GridSetting& setting : plan_.settings) {
      OUTRIDER_RETURN_IF_ERROR(run_setting(setting));
    }
    return std::move(result_);
  }

 private:
  std::optional<int> core(std::size_t index) const {
    if (cores_.empty()) return std::nullopt;
    return cores_[index % cores_.size()];
  }

  std::vector<std::string> edge_arguments(const LinkedServer& server, const GridVariant& variant,
                                          const PaceCurve& step, const std::string& prompt) const {
    std::vector<std::string> arguments = {"run",
                                          "--json",
                                          "--server=" + server.link->address().to_string(),
                                          std::string("--strategy=") + name_of(variant.strategy),
                                          "--max-tokens=" + std::to_string(plan_.max_tokens),
                                          "--threads=1",
                                          "--seed=" + std::to_string(plan_.seed),
                                          "--temp=" + number(plan_.sampling.temperature),
                                          "--top-k=" + std::to_string(plan_.sampling.top_k),
                                          "--top-p=" + number(plan_.sampling.top_p),
                                          "--min-p=" + number(plan_.sampling.min_p),
                                          "--log-level=warning"};
    if (variant.strategy == Strategy::kAr) {
      arguments.push_back("--tokenizer=" + plan_.target);
    } else {
      arguments.push_back("--model=" + plan_.draft);
      const int gamma = variant.gamma > 0 ? variant.gamma : plan_.gamma;
      arguments.push_back("--spec-draft-n-max=" + std::to_string(gamma));
      if (!step.empty()) {
        arguments.push_back("--pace-step-ms=" + step.scaled(1 / plan_.time_scale).to_string());
      }
    }
    arguments.insert(arguments.end(), variant.edge_flags.begin(), variant.edge_flags.end());
    arguments.push_back("--prompt=" + prompt);
    return arguments;
  }

  Result<EdgeAnswer> answer(const LinkedServer& server, const GridVariant& variant,
                            const PaceCurve& step, const std::string& prompt) {
    const DelayLinkTraffic before = server.link->traffic();
    OUTRIDER_ASSIGN_OR_RETURN(
        const FinishedProcess edge,
        run_process({edge_program_, edge_arguments(server, variant, step, prompt), core(1)},
                    kAnswerTimeout));
    if (edge.exit_code == 2) {
      return invalid_argument("outrider-edge refused variant " + variant.name + " (--strategy " +
                              name_of(variant.strategy) + "): " + last_error_line(edge.err));
    }
    if (edge.exit_code != 0) {
      return unavailable("outrider-edge (" + variant.name + ") ended with code " +
                         std::to_string(edge.exit_code) + ": " + last_error_line(edge.err));
    }
    OUTRIDER_ASSIGN_OR_RETURN(EdgeAnswer answer,
                              read_edge_answer(last_line(edge.out), plan_.time_scale));
    const DelayLinkTraffic after = server.link->traffic();
    answer.figures.wire_up = static_cast<double>(after.up - before.up);
    answer.figures.wire_down = static_cast<double>(after.down - before.down);
    return answer;
  }

  // The text of each prompt, as the target alone writes it; and one short answer of each variant,
  // so that a flag which a program does not know ends the run now and not after an hour.
  Status decode_references() {
    const GridSetting plain_setting;
    ServerPool servers(plan_, plain_setting, core(0));
    OUTRIDER_ASSIGN_OR_RETURN(const LinkedServer* plain_server, servers.find({}));
    for (const std::string& prompt : plan_.prompts) {
      OUTRIDER_ASSIGN_OR_RETURN(EdgeAnswer plain,
                                answer(*plain_server, variant_of(Strategy::kAr), {}, prompt));
      result_.reference_tokens += plain.ids.size();
      references_.push_back(std::move(plain.ids));
    }
    for (const GridVariant& variant : plan_.variants) {
      if (variant.strategy == Strategy::kAr) continue;
      OUTRIDER_ASSIGN_OR_RETURN(const LinkedServer* server, servers.find(variant.server_flags));
      OUTRIDER_RETURN_IF_ERROR(answer(*server, variant, {}, plan_.prompts.front()).status());
    }
    return {};
  }

  Status run_setting(const GridSetting& setting) {
    ServerPool servers(plan_, setting, core(0));
    std::vector<const LinkedServer*> server_of;
    std::vector<GridCell> cells;
    for (const GridVariant& variant : plan_.variants) {
      OUTRIDER_ASSIGN_OR_RETURN(const LinkedServer* server, servers.find(variant.server_flags));
      server_of.push_back(server);
      cells.push_back({setting.name, variant.name, variant.strategy, {}, 0, ""});
    }
    const std::size_t variants = plan_.variants.size();
    for (std::size_t i = 0; i < plan_.prompts.size(); ++i) {
      for (std::size_t j = 0; j < variants; ++j) {
        const std::size_t at = (i + j) % variants;
        show_progress(setting, plan_.variants[at], i);
        OUTRIDER_RETURN_IF_ERROR(
            run_one(*server_of[at], setting, i, plan_.variants[at], cells[at]));
      }
    }
    count_overruns(setting, servers.stop(), cells);
    std::move(cells.begin(), cells.end(), std::back_inserter(result_.cells));
    return {};
  }

  void count_overruns(const GridSetting& setting, const PaceCounts& target,
                      const std::vector<GridCell>& cells) {
    GridOverruns sum{setting.name, target, {}};
    for (const GridCell& cell : cells) {
      if (setting.step.empty()) break;
      for (const AnswerFigures& answer : cell.answers) {
        sum.draft.passes += static_cast<std::int64_t>(answer.draft_steps);
        sum.draft.overruns += static_cast<std::int64_t>(answer.draft_overruns);
      }
    }
    if (!setting.pass.empty() || !setting.step.empty()) result_.overruns.push_back(sum);
  }

  Status run_one(const LinkedServer& server, const GridSetting& setting, std::size_t prompt,
                 const GridVariant& variant, GridCell& cell) {
    OUTRIDER_ASSIGN_OR_RETURN(const EdgeAnswer answered,
                              answer(server, variant, setting.step, plan_.prompts[prompt]));
    const std::vector<TokenId>& wanted = references_[prompt];
    ++result_.compared;
    if (answered.ids != wanted) {
      const auto ends =
          std::mismatch(wanted.begin(), wanted.end(), answered.ids.begin(), answered.ids.end());
      ++result_.mismatches;
      ++cell.mismatches;
      std::fprintf(stderr, "\nmismatch: %s at %s, prompt %zu, token %td of %zu\n",
                   variant.name.c_str(), setting.name.c_str(), prompt + 1,
                   ends.first - wanted.begin(), wanted.size());
    }
    cell.answers.push_back(answered.figures);
    cell.speculation = answered.speculation;
    return {};
  }

  void show_progress(const GridSetting& setting, const GridVariant& variant, std::size_t prompt) {
    const std::size_t total = plan_.settings.size() * plan_.variants.size() * plan_.prompts.size();
    std::fprintf(stderr, "\r%4zu of %zu  %s  %s  prompt %zu          ", ++begun_, total,
                 setting.name.c_str(), variant.name.c_str(), prompt + 1);
    if (begun_ == total) std::fputc('\n', stderr);
  }

  const GridPlan& plan_;
  const std::vector<int> cores_;
  std::string edge_program_;
  std::vector<std::vector<TokenId>> references_;  // [prompt]
  GridResult result_;
  std::size_t begun_ = 0;
};

}  // namespace

GridVariant variant_of(Strategy strategy) {
  GridVariant variant;
  variant.name = name_of(strategy);
  variant.strategy = strategy;
  variant.uses_exits = strategy == Strategy::kFsd || strategy == Strategy::kMirror;
  // The paper's algorithm 2 knows no calibration.
  if (strategy == Strategy::kFsd) variant.server_flags = {"--exit-score=max-softmax"};
  return variant;
}

const GridCell* GridResult::find(const std::string& setting, const std::string& variant) const {
  const auto found = std::find_if(cells.begin(), cells.end(), [&](const GridCell& cell) {
    return cell.setting == setting && cell.variant == variant;
  });
  return found == cells.end() ? nullptr : &*found;
}

Result<GridResult> run_grid(const GridPlan& plan) {
  return Grid(plan).run();
}

}  // namespace outrider
