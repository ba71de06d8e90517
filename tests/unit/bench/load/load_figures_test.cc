// The figures that follow from the samples of a load.
// SPDX-License-Identifier: Apache-2.0
#include "bench/load/load_figures.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "bench/load/load_report.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// Tokens at `first` ms, and then every `gap` ms.
LoadSample answered(int due, int first, int tokens, int gap, std::size_t client = 0) {
  LoadSample sample{.client = client,
                    .due = milliseconds(due),
                    .sent = milliseconds(due),
                    .prompt_tokens = 10,
                    .tokens = static_cast<std::uint64_t>(tokens)};
  for (int i = 0; i < tokens; ++i) {
    sample.arrivals.push_back({milliseconds(first + i * gap), 1});
  }
  sample.ended = sample.arrivals.back().at;
  return sample;
}

TEST(LoadFiguresTest, LatenciesCountFromTheArrivalEvenIfAllClientsWereBusy) {
  LoadSample sample = answered(100, 350, 11, 20);
  sample.sent = milliseconds(300);
  EXPECT_DOUBLE_EQ(*sample.ttft_ms(), 250);
  EXPECT_DOUBLE_EQ(*sample.tpot_ms(), 20);
  EXPECT_DOUBLE_EQ(sample.e2el_ms(), 450);
  const LoadFigures figures = figures_of({&sample, 1}, 1, {});
  EXPECT_DOUBLE_EQ(figures.waited_ms->p50, 200);
  EXPECT_EQ(figures.itl_ms->count, 10u);
  EXPECT_FALSE(answered(0, 5, 1, 1).tpot_ms()) << "one token has no time between tokens";
}

TEST(LoadFiguresTest, FailedRequestsAreCountedByKindAndInNoThroughput) {
  std::vector<LoadSample> samples = {answered(0, 100, 10, 100), answered(0, 200, 5, 200)};
  samples.push_back({.ended = milliseconds(2000), .status = unavailable("gone")});
  samples.push_back({.ended = milliseconds(10), .status = unavailable("again")});
  samples.push_back({.ended = milliseconds(10), .status = resource_exhausted("full")});
  const LoadFigures figures = figures_of(samples, 2, {});
  EXPECT_EQ(figures.answered, 2u);
  EXPECT_EQ(figures.errors.at("UNAVAILABLE"), 2u);
  EXPECT_EQ(figures.errors.at("RESOURCE_EXHAUSTED"), 1u);
  EXPECT_EQ(figures.first_error, "gone");
  EXPECT_DOUBLE_EQ(figures.seconds, 2);
  EXPECT_DOUBLE_EQ(figures.tokens_per_s, 7.5);
  EXPECT_DOUBLE_EQ(figures.requests_per_s, 1);
  EXPECT_EQ(figures.prompt_tokens, 20u);
}

TEST(LoadFiguresTest, GoodputCountsRequestsThatMeetAllObjectives) {
  const std::vector<LoadSample> samples = {
      answered(0, 100, 11, 50),
      answered(0, 600, 11, 10),
      answered(0, 100, 11, 90),
      {.ended = milliseconds(10), .status = unavailable("gone")}};
  const std::vector<LatencySlo> slos = {{LatencyMetric::kTtft, 500}, {LatencyMetric::kTpot, 60}};
  EXPECT_TRUE(meets(samples[0], slos));
  EXPECT_FALSE(meets(samples[1], slos)) << "its first token is late";
  EXPECT_FALSE(meets(samples[2], slos)) << "its tokens are slow";
  EXPECT_FALSE(meets(samples[3], {})) << "it failed";
  const LoadFigures figures = figures_of(samples, 1, slos);
  EXPECT_DOUBLE_EQ(figures.good_share, 0.25);
  EXPECT_DOUBLE_EQ(figures.good_tokens_per_s, 11 / figures.seconds);
}

TEST(LoadFiguresTest, AnObjectiveNamesAMetricAndMilliseconds) {
  EXPECT_EQ(parse_slo("tpot:12.5")->limit_ms, 12.5);
  EXPECT_EQ(parse_slo("e2el:9000")->metric, LatencyMetric::kE2el);
  EXPECT_THAT(parse_slo("speed:1").status().message(), HasSubstr("none of ttft, tpot, e2el"));
  for (const char* bad :
       {"ttft", "ttft:", "ttft:0", "ttft:-5", "ttft:5ms", "ttft:nan", "ttft:inf"}) {
    EXPECT_THAT(parse_slo(bad).status().message(), HasSubstr("METRIC:MILLISECONDS")) << bad;
  }
}

TEST(LoadFiguresTest, JainsIndexIsOneForEqualSharesAndOneNthForOneWhoHasAll) {
  EXPECT_DOUBLE_EQ(*jain_index(std::vector<double>{3, 3, 3, 3}), 1);
  EXPECT_DOUBLE_EQ(*jain_index(std::vector<double>{5, 0, 0, 0}), 0.25);
  EXPECT_DOUBLE_EQ(*jain_index(std::vector<double>{1, 2, 3}), 36.0 / (3 * 14));
  EXPECT_FALSE(jain_index(std::vector<double>{0, 0}));
  EXPECT_FALSE(jain_index({}));
  // Over clients: of two requests of one client the tokens and the times add up.
  const std::vector<LoadSample> samples = {
      answered(0, 100, 10, 100, 0), answered(1000, 1100, 10, 100, 0), answered(0, 50, 10, 50, 1)};
  EXPECT_NEAR(*figures_of(samples, 2, {}).jain, 900.0 / (2 * 500), 1e-9) << "10 and 20 a second";
}

TEST(LoadFiguresTest, FullLoadIsTheSpeedWhileAllClientsDecode) {
  // Both decode from 200 to 500 ms: three tokens of the first, six of the second.
  const std::vector<LoadSample> samples = {answered(0, 100, 5, 100, 0),
                                           answered(0, 200, 17, 50, 1)};
  EXPECT_DOUBLE_EQ(*full_load_tokens_per_s(samples, 2), 30);
  EXPECT_DOUBLE_EQ(*full_load_tokens_per_s({samples.data(), 1}, 1), 10);
  EXPECT_FALSE(full_load_tokens_per_s(samples, 3)) << "three never did";
  EXPECT_FALSE(full_load_tokens_per_s({}, 1));
}

TEST(ServerCountersTest, AreReadAndSubtracted) {
  const auto page = [](int times) {
    std::string text = "# TYPE outrider_rows_total counter\n";
    for (const char* name :
         {"device_passes_total", "prompt_rows_total", "rows_total", "device_seconds_total",
          "device_idle_seconds_total", "prefix_cache_queries_total", "prefix_cache_hits_total",
          "num_preemptions_total"}) {
      text +=
          std::string("outrider_") + name + "{model_name=\"a} 7\"} " + std::to_string(times) + "\n";
      times *= 2;
    }
    return text;
  };
  const ServerCounters counted = *parse_counters(page(3)) - *parse_counters(page(1));
  EXPECT_DOUBLE_EQ(counted.device_passes, 2);
  EXPECT_DOUBLE_EQ(counted.decoding_rows(), 8 - 4) << "those of prompts left out";
  EXPECT_DOUBLE_EQ(*counted.rows_per_pass(), 2);
  EXPECT_DOUBLE_EQ(*counted.idle_share(), 32.0 / 48);
  EXPECT_DOUBLE_EQ(counted.preemptions, 256);
  EXPECT_FALSE(ServerCounters().idle_share());
  EXPECT_THAT(parse_counters("vllm:num_requests_running 3\n").status().message(),
              HasSubstr("no outrider_device_passes_total"));
  EXPECT_FALSE(parse_counters("\noutrider_device_passes_total{} x").ok());
}

TEST(LoadReportTest, TheTableSaysWhatFailedAndLeavesOutWhatIsNotKnown) {
  LoadReport report{.title = "one edge", .figures = figures_of({}, 1, {}), .slos = {}};
  report.figures.errors["UNAVAILABLE"] = 3;
  const std::string table = load_table(report);
  EXPECT_THAT(table, HasSubstr("Failed with UNAVAILABLE:"));
  EXPECT_THAT(table, HasSubstr("Jain's index over clients:"));
  EXPECT_THAT(table, testing::Not(HasSubstr("Server")));
  EXPECT_THAT(table, testing::Not(HasSubstr("oodput")));
  report.slos = {{LatencyMetric::kTtft, 5}};
  report.server = ServerCounters{.device_passes = 4, .rows = 10};
  EXPECT_THAT(load_table(report), HasSubstr("2.50"));
  EXPECT_EQ(to_json(report)["server"]["rows_per_pass"], 2.5);
  EXPECT_TRUE(to_json(report)["latency_ms"]["ttft"].is_null());
}

}  // namespace
}  // namespace outrider
