// The metrics that Prometheus gets from an edge. SPDX-License-Identifier: Apache-2.0
#include "edge_client/serve/edge_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::HasSubstr;
using testing::Not;

// 90 passes over 4 drafted tokens each; 12 s of 36 s on this device.
AnswerReport report() {
  AnswerReport report;
  DecodingStats& stats = report.record.stats;
  stats.passes = 90;
  stats.rows = 450;
  stats.num_drafts = 90;
  stats.num_draft_tokens = 360;
  stats.num_accepted_tokens = 110;
  stats.rows_died = 250;
  stats.accepted_per_position = {70, 40, 0, 0};
  stats.target_compute = std::chrono::seconds(36);
  stats.round_trips = {std::chrono::milliseconds(30), std::chrono::milliseconds(40)};
  stats.reconnects = 2;
  stats.predraft.ahead_dead = 5;
  stats.predraft.exit_layers = {4, 12};
  stats.predraft.hits_by_exit = {3, 2};
  report.record.failover.offline_compute = std::chrono::seconds(12);
  report.record.traffic =
      TrafficRecord{.bytes = {.framed_up = 3'000'000, .framed_down = 1'000'000}};
  report.record.joules = 12.5;
  report.record.bill =
      Bill{.api = {}, .device = 0.02, .link = {}, .power = {}, .prices_of = "2026-01-31"};
  return report;
}

std::string rendered(EdgeMetrics& metrics, const LinkWatch::View& link = {}) {
  return metrics.render({.running = 0, .waiting = 0, .link = link});
}

TEST(EdgeMetrics, TheNameMayComeLateAndStaysOnceSomethingIsCounted) {
  EdgeMetrics metrics("draft");
  metrics.rename("target");
  EXPECT_THAT(rendered(metrics), Not(HasSubstr("model_name=\"draft\"")));
  metrics.observe(report());
  metrics.rename("another");
  EXPECT_THAT(rendered(metrics), HasSubstr("target_passes_total{model_name=\"target\"} 90"));
  EXPECT_THAT(rendered(metrics), Not(HasSubstr("another")));
}

TEST(EdgeMetrics, AJetsonsFiguresAreThoseOfTheMomentAndOtherDevicesHaveNone) {
  EdgeMetrics metrics("m");
  EXPECT_THAT(rendered(metrics), Not(HasSubstr("outrider_edge_device")));
  JetsonFigures device;
  device.power_mode = "15W";
  device.celsius = {{"tj-thermal", 49.5}};
  device.watts = {{"VDD_IN", 4.75}};
  device.gpu_load = 0.25;
  device.throttled = {"cpu-throttle-alert", "gpu-throttle-alert"};
  device.over_current_events = 3;
  const std::string text =
      metrics.render({.running = 0, .waiting = 0, .link = {}, .device = device});
  for (const char* line :
       {"outrider_edge_device_power_mode{mode=\"15W\"} 1",
        "outrider_edge_device_temperature_celsius{zone=\"tj-thermal\"} 49.5",
        "outrider_edge_device_power_watts{rail=\"VDD_IN\"} 4.75",
        "outrider_edge_device_gpu_load_ratio 0.25", "outrider_edge_device_throttled 2",
        "outrider_edge_device_over_current_events 3"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  device = {};
  device.power_mode = "MAXN";
  const std::string later =
      metrics.render({.running = 0, .waiting = 0, .link = {}, .device = device});
  EXPECT_THAT(later, HasSubstr("mode=\"MAXN\""));
  EXPECT_THAT(later, Not(HasSubstr("15W")));
  EXPECT_THAT(later, Not(HasSubstr("gpu_load")));
}

TEST(EdgeMetrics, TheBooksAndTheDraftsFiguresAreCounted) {
  EdgeMetrics metrics("m");
  metrics.observe(report());
  metrics.observe(report());
  const std::string text = rendered(metrics);
  for (const char* line :
       {"target_passes_total{model_name=\"m\"} 180", "rows_total{model_name=\"m\"} 900",
        "rows_died_total{model_name=\"m\"} 500", "device_seconds_total{model_name=\"m\"} 72",
        "net_bytes_total{model_name=\"m\",direction=\"up\"} 6000000",
        "joules_total{model_name=\"m\"} 25",
        "dollars_total{model_name=\"m\",of=\"device\",prices_of=\"2026-01-31\"} 0.04",
        "spec_decode_num_accepted_tokens_per_pos_total{model_name=\"m\",position=\"0\"} 140",
        "spec_decode_num_accepted_tokens_per_pos_total{model_name=\"m\",position=\"1\"} 80",
        "rollback_tokens_total{model_name=\"m\"} 510",
        "resume_total{model_name=\"m\",result=\"success\"} 4",
        "resume_total{model_name=\"m\",result=\"failure\"} 0",
        "net_rtt_seconds_count{model_name=\"m\"} 4",
        "net_rtt_seconds_bucket{model_name=\"m\",le=\"0.02\"} 0",
        "exit_layer_count{model_name=\"m\"} 10",
        "exit_layer_bucket{model_name=\"m\",le=\"4\"} 6"}) {
    EXPECT_THAT(text, HasSubstr(std::string("outrider_edge_") + line));
  }
}

TEST(EdgeMetrics, AnAnswerThatLostItsLinkDidNotResume) {
  EdgeMetrics metrics("m");
  AnswerReport lost = report();
  lost.finish.ending = Ending::kLinkLost;
  lost.record.traffic.reset();
  metrics.observe(lost);
  const std::string text = rendered(metrics);
  EXPECT_THAT(text, HasSubstr("resume_total{model_name=\"m\",result=\"failure\"} 1"));
  EXPECT_THAT(text, HasSubstr("net_rtt_seconds_count{model_name=\"m\"} 0")) << "there was no link";
}

TEST(EdgeMetrics, TheModeIsWhoDecidesNowAndNotAFlag) {
  EdgeMetrics metrics("m");
  const auto mode = [&](const char* name, const LinkWatch::View& view) {
    return rendered(metrics, view)
               .find("outrider_edge_mode{model_name=\"m\",mode=\"" + std::string(name) + "\"} 1") !=
           std::string::npos;
  };
  const LinkWatch::View online{.link = LinkState::kOnline};
  const LinkWatch::View lost{.link = LinkState::kDegraded};
  const LinkWatch::View here{.link = LinkState::kOnline, .device_decides = true};
  EXPECT_TRUE(mode("online", online));
  EXPECT_TRUE(mode("degraded", lost));
  EXPECT_FALSE(mode("online", lost)) << "one at a time";
  EXPECT_TRUE(mode("offline", here)) << "the link is back, but this device decides yet";
  EXPECT_THAT(rendered(metrics, {}), Not(HasSubstr("mode=\"online\"} 1"))) << "not known yet";
}

}  // namespace
}  // namespace outrider
