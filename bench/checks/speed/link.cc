// link: whether an emulated link keeps its profile while all cores are busy. See
// bench/probe/accuracy.h and emulation/link-emulation.md. SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/checks/checks.h"
#include "bench/probe/accuracy.h"
#include "bench/probe/tcp_probe.h"
#include "common/base/thread_pool.h"
#include "emulation/path/link_spec.h"
#include "emulation/process/process.h"

namespace outrider {
namespace {

struct LinkCheckOptions {
  std::string profiles;
  std::string trace;
  std::optional<double> seconds = {};  // nothing: as long as the profile needs
  std::uint64_t seed = 0;
  bool idle = false;
  bool tcp = false;
};

// One thread per core that only consumes CPU time.
class BusyCores final {
 public:
  explicit BusyCores(bool busy) {
    for (std::size_t i = 0; busy && i < usable_cores().size(); ++i) {
      threads_.emplace_back([this] {
        while (!stop_.load(std::memory_order_relaxed)) {
        }
      });
    }
  }
  ~BusyCores() {
    stop_.store(true);
    for (std::thread& thread : threads_) thread.join();
  }
  BusyCores(const BusyCores&) = delete;
  BusyCores& operator=(const BusyCores&) = delete;

  std::size_t count() const { return threads_.size(); }

 private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

Result<std::vector<LinkProfile>> chosen_profiles(const LinkCheckOptions& options) {
  std::vector<LinkProfile> profiles;
  if (!options.profiles.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(profiles, parse_links(options.profiles));
  }
  if (!options.trace.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(LinkProfile trace, parse_link("trace:" + options.trace));
    profiles.push_back(std::move(trace));
  }
  if (profiles.empty()) return invalid_argument("give --profile or --trace");
  return profiles;
}

// A missing right is not a failure of the link: the check is inconclusive.
bool cannot_be_had(const Status& status) {
  return status.code() == StatusCode::kFailedPrecondition;
}

Result<CheckOutcome> run_link(const LinkCheckOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<LinkProfile> profiles, chosen_profiles(options));
  AccuracyPlan plan;
  plan.round_trips = from_ms(options.seconds.value_or(0) * 1e3);
  plan.flood = plan.round_trips;
  plan.seed = options.seed;
  CheckOutcome outcome;
  outcome.passed = true;
  const BusyCores busy(!options.idle);
  outcome.figures["busy_cores"] = busy.count();
  outcome.figures["seed"] = options.seed;
  std::vector<Bar> bars;
  for (const LinkProfile& profile : profiles) {
    std::fprintf(stderr, "%s\n", profile.description().c_str());
    Json& figures = outcome.figures["profiles"][profile.name];
    Result<Accuracy> measured = measure_accuracy(profile, plan);
    if (measured.ok()) {
      for (const Bar& bar : measured->bars) std::fprintf(stderr, "  %s\n", bar.to_string().c_str());
      figures = std::move(measured->figures);
      bars.insert(bars.end(), measured->bars.begin(), measured->bars.end());
    } else if (cannot_be_had(measured.status())) {
      outcome.mark_inconclusive(measured.status().message());
    } else {
      return measured.status();
    }
    if (options.tcp || !measured.ok()) {
      figures["tcp"] = link_figures(profile, {.seed = options.seed}, {});
    }
  }
  if (!bars.empty()) outcome.hold(bars);
  return outcome;
}

}  // namespace

void add_link_check(CheckList& checks) {
  auto options = std::make_shared<LinkCheckOptions>();
  CLI::App* command = checks.add("link", "Whether emulated links keep their profiles (root)",
                                 [options] { return run_link(*options); });
  command->add_option(
      "--profile", options->profiles,
      "Profiles separated by commas, with changes if any (lte+loss=2%); all: the table");
  command->add_option("--trace", options->trace, "A trace of a real link; FILE@30s: from 30 s on");
  command
      ->add_option("--seconds", options->seconds,
                   "Seconds for each of round trips, rate up and rate down; by default "
                   "as long as the profile needs")
      ->check(CLI::Range(3.0, 3600.0));
  command->add_option("--seed", options->seed, "Of jitter and loss");
  command->add_flag("--idle", options->idle, "Leave the cores idle instead of keeping all busy");
  command->add_flag("--tcp", options->tcp, "Measure over TCP too");
}

}  // namespace outrider
