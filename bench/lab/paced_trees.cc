// SPDX-License-Identifier: Apache-2.0
#include "bench/lab/paced_trees.h"

#include <fmt/core.h>

#include <deque>
#include <memory>

namespace outrider {
namespace {

constexpr std::size_t kPacedNodes = 32;  // as in make_planner.cc

GuestTree paced(const char* name, const BranchPacer::Options& options) {
  return {name, [options](std::size_t size) {
            BranchPacer::Options own = options;
            own.max_nodes = size > 0 ? size : kPacedNodes;
            return std::make_unique<BranchPacer>(own);
          }};
}

std::vector<GuestTree> make_paced_trees() {
  static std::deque<std::string> names;  // a GuestTree's name lives as long as it does
  std::vector<GuestTree> trees = {
      paced("edgellm-navigation", {.adapts = false}),
      paced("llmcad-navigation", {.normalised = true, .adapts = false})};
  for (const double threshold : kStartThresholds) {
    trees.push_back(
        paced(names.emplace_back(start_name(threshold)).c_str(), {.threshold = threshold}));
  }
  for (const double factor : kRelaxFactors) {
    trees.push_back(paced(names.emplace_back(relax_name(factor)).c_str(), {.relax = factor}));
  }
  return trees;
}

}  // namespace

std::string start_name(double threshold) {
  return fmt::format("edgellm-start-{}", threshold);
}

std::string relax_name(double factor) {
  return fmt::format("edgellm-relax-{}", factor);
}

const std::vector<GuestTree>& paced_trees() {
  static const std::vector<GuestTree> trees = make_paced_trees();
  return trees;
}

}  // namespace outrider
