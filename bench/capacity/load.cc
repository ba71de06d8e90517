// SPDX-License-Identifier: Apache-2.0
#include "bench/capacity/load.h"

#include <algorithm>
#include <cmath>

#include "bench/harness/law.h"
#include "bench/paces/paces.h"
#include "emulation/random/random.h"

namespace outrider {
namespace {

// The purposes for which numbers are drawn.
enum class Draw : std::uint64_t { kPrompt, kAnswer, kThink, kToken };

double draw(const ClientLoad& load, const RequestId& request, Draw what, int position = 0) {
  std::uint64_t bits = mixed(load.seed * 4 + static_cast<std::uint64_t>(what));
  bits = mixed(bits ^ request.client);
  bits = mixed(bits ^ request.number);
  return unit(mixed(bits ^ static_cast<std::uint64_t>(position)));
}

// pass_curve() has one more point, for a prompt's prefill, which no row of table 9 stands for.
CapacityPace of_table9(const PaperPace& pace) {
  std::vector<PaceCurve::Point> points = pass_curve(pace).points();
  points.pop_back();
  return {.name = pace.name,
          .pass = *PaceCurve::create(std::move(points)),
          .step_ms = pace.step_ms,
          .one_way_ms = pace.one_way_ms,
          .source = "FSD, table 9: Vicuna-7B on an A100, its draft on a Jetson"};
}

// Passes of Llama 2 7B's shapes, bench/results/gpu-h100.json; the edge is table 9's.
CapacityPace of_h100(const std::string& name, double one_way_ms) {
  return {
      .name = name,
      .pass = *PaceCurve::create({{1, 5.66}, {8, 8.18}, {16, 12.31}, {64, 39.48}, {320, 187.36}}),
      .step_ms = table9_step_ms(1),
      .one_way_ms = one_way_ms,
      .source = "gpu-h100.json: our kernels, Llama 2 7B's shapes in bf16 on an H100"};
}

std::vector<CapacityPace> all_paces() {
  std::vector<CapacityPace> paces;
  for (const PaperPace& pace : paper_paces()) {
    if (pace.group == PaceGroup::kTable9) paces.push_back(of_table9(pace));
  }
  paces.push_back(of_h100("h100-5ms", 5));
  paces.push_back(of_h100("h100-42ms", 42));
  return paces;
}

std::vector<CapacityPair> all_pairs() {
  return {{"demo-robot", 3.91, 4, "demo-pair.json: the demo pair, robot prompts"},
          {"smollm2-gsm8k", 2.54, 4, "smollm2-pair.json: SmolLM2-135M and its draft, GSM8K"},
          {"smollm2-mt-bench", 1.64, 4, "smollm2-pair.json: the same, MT-bench"},
          {"fsd-llama2", 3.54, 4, "FSD, table 6: 68M draft, Llama 2 7B, RTX"}};
}

template <typename Item>
Result<std::vector<Item>> find_items(const std::vector<std::string>& names, const char* flag,
                                     const std::vector<Item>& all) {
  std::string known = "all";
  for (const Item& item : all) known += ", " + item.name;
  std::vector<Item> found;
  for (const Item& item : all) {
    const bool wanted = std::ranges::any_of(
        names, [&](const std::string& name) { return name == item.name || name == "all"; });
    if (wanted) found.push_back(item);
  }
  for (const std::string& name : names) {
    const bool is_known = name == "all" || std::ranges::any_of(all, [&](const Item& item) {
                            return item.name == name;
                          });
    if (!is_known) {
      return invalid_argument(std::string(flag) + " " + name + ": not known; there are " + known);
    }
  }
  if (found.empty())
    return invalid_argument(std::string(flag) + ": names none; there are " + known);
  return found;
}

}  // namespace

double CapacityPair::acceptance() const {
  return acceptance_of_tau(tau, gamma);
}

Result<std::vector<CapacityPace>> find_capacity_paces(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    for (const PaperPace& pace : paper_paces()) {
      if (pace.name != name || pace.group != PaceGroup::kTables5And8) continue;
      return invalid_argument("--pace " + name +
                              ": its source has no pass times by rows, so further rows would cost "
                              "nothing. Remedy: a pace with a curve, or --pass-curve");
    }
  }
  return find_items(names, "--pace", all_paces());
}

Result<std::vector<CapacityPair>> find_capacity_pairs(const std::vector<std::string>& names) {
  return find_items(names, "--pair", all_pairs());
}

Result<PaceCurve> parse_capacity_curve(const std::string& text) {
  OUTRIDER_ASSIGN_OR_RETURN(PaceCurve curve, PaceCurve::parse(text));
  if (curve.points().size() < 2) {
    return invalid_argument("pace '" + text +
                            "': one point, so further rows would cost nothing. Remedy: two points "
                            "or more, ROWS:MS,ROWS:MS");
  }
  if (curve.points().front().ms <= 0) {
    return invalid_argument("pace '" + text + "': a pass of no time; expected more than 0 ms");
  }
  return curve;
}

CrowdKind ClientLoad::kind_of(std::size_t client, int gamma) const {
  for (const CrowdKind& kind : kinds) {
    if (client < kind.clients) return kind;
    client -= kind.clients;
  }
  return {.acceptance = acceptance, .stated = acceptance, .gamma = gamma};
}

Duration LinkLoad::time_of(std::size_t bytes) const {
  return bit_per_s > 0 ? delay + from_ms(8e3 * static_cast<double>(bytes) / bit_per_s) : delay;
}

RequestLengths lengths_of(const ClientLoad& load, const RequestId& request) {
  const auto around = [&](int mean, Draw what, int least) {
    return std::max(least, static_cast<int>(std::lround(mean * (0.5 + draw(load, request, what)))));
  };
  return {.prompt = around(load.prompt, Draw::kPrompt, 1),
          .answer = around(load.answer, Draw::kAnswer, 2)};
}

Duration think_before(const ClientLoad& load, const RequestId& request) {
  const double drawn = draw(load, request, Draw::kThink);
  // The first ones are spread over a second at least, so that not all ask at once.
  if (request.number == 0) return from_ms(drawn * std::max(1000.0, to_ms(load.think)));
  return from_ms(-std::log(1 - drawn) * to_ms(load.think));
}

bool stands(const ClientLoad& load, const RequestId& request, int position) {
  return draw(load, request, Draw::kToken, position) < load.kind_of(request.client, 0).acceptance;
}

int accepted(const ClientLoad& load, const RequestId& request, int position, int drafted) {
  int count = 0;
  while (count < drafted && stands(load, request, position + count)) ++count;
  return count;
}

}  // namespace outrider
