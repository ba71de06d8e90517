// Usage records of sessions. SPDX-License-Identifier: Apache-2.0
#include "cloud_server/http/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cloud_server/http/metrics.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// A session of alice: 1000 prompt tokens, 400 of them cached; 200 answer tokens in 90 passes and 36
// s.
SessionRecord record() {
  SessionRecord record;
  record.session_id = "s";
  record.tenant = "alice";
  record.request_id = "robot-7";
  record.reason = FinishReason::kLength;
  record.usage = {.reason = FinishReason::kLength,
                  .prompt_tokens = 1000,
                  .cached_tokens = 400,
                  .completion_tokens = 200,
                  .passes = 90,
                  .rows = 1500,
                  .compute = std::chrono::seconds(36)};
  record.draft = {.rounds = 89, .tokens = 300, .accepted = 110, .accepted_at = {70, 40}};
  return record;
}

SessionRecord measured() {
  SessionRecord all = record();
  auto traffic = std::make_shared<StreamTraffic>();
  traffic->add_up(3'000'000);
  traffic->add_down(1'000'000);
  all.traffic = std::move(traffic);
  all.joules = 12.5;
  return all;
}

Prices prices() {
  return {.date = "2026-01-31",
          .api = {.input = 2, .output = 10, .cached_input = 0.5},
          .gpu_dollars_per_hour = 3,
          .link_dollars_per_mb = 0.01};
}

std::string audit_line(const SessionRecord& record, const Prices* prices) {
  return internal::format_log_line(LogFormat::kJson, "session ended",
                                   std::span<const LogField>(audit_fields(record, prices)));
}

TEST(Ledger, ALineOfTheAuditTellsWhatWasMeasuredAndNoMore) {
  const Prices all = prices();
  EXPECT_THAT(
      audit_line(measured(), &all),
      AllOf(HasSubstr("\"tenant\":\"alice\""), HasSubstr("\"request_id\":\"robot-7\""),
            HasSubstr("\"passes\":90"), HasSubstr("\"rows\":1500"), HasSubstr("\"rows_died\":190"),
            HasSubstr("\"device_s\":36"), HasSubstr("\"bytes_up\":3000000"),
            HasSubstr("\"bytes_down\":1000000"), HasSubstr("\"joules\":12.5"),
            HasSubstr("\"device_dollars\":0.03"), HasSubstr("\"prices_of\":\"2026-01-31\"")));
  EXPECT_THAT(audit_line(record(), nullptr),
              AllOf(Not(HasSubstr("bytes")), Not(HasSubstr("joules")), Not(HasSubstr("dollars"))));
}

TEST(Ledger, TenantsHaveTheirOwnCounters) {
  const Prices all = prices();
  ServerMetrics metrics("m", &all);
  metrics.observe(measured());
  metrics.observe(measured());
  SessionRecord other = record();
  other.tenant = "bob";
  metrics.observe(other);
  const std::string text = metrics.render({});
  for (const char* line :
       {"outrider_tenant_sessions_total{model_name=\"m\",tenant=\"alice\"} 2",
        "outrider_tenant_target_passes_total{model_name=\"m\",tenant=\"alice\"} 180",
        "outrider_tenant_rows_total{model_name=\"m\",tenant=\"bob\"} 1500",
        "outrider_tenant_rows_died_total{model_name=\"m\",tenant=\"bob\"} 190",
        "outrider_tenant_device_seconds_total{model_name=\"m\",tenant=\"bob\"} 36",
        "outrider_tenant_bytes_total{model_name=\"m\",direction=\"up\",tenant=\"alice\"} 6000000",
        "outrider_tenant_joules_total{model_name=\"m\",tenant=\"alice\"} 25",
        "outrider_tenant_dollars_total{model_name=\"m\",of=\"device\",prices_of=\"2026-01-31\","
        "tenant=\"alice\"} 0.06"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, HasSubstr("outrider_spec_decode_num_accepted_tokens_per_pos_total{model_name="
                              "\"m\",position=\"1\"} 120"));
  EXPECT_THAT(text, Not(HasSubstr("joules_total{model_name=\"m\",tenant=\"bob\"")));
}

TEST(Ledger, NamesOfCertificatesDoNotMakeCountersWithoutEnd) {
  ServerMetrics metrics("m");
  SessionRecord of_one = record();
  for (int i = 0; i < 1200; ++i) {
    of_one.tenant = "robot-" + std::to_string(i);
    metrics.observe(of_one);
  }
  const std::string text = metrics.render({});
  EXPECT_THAT(text,
              HasSubstr("outrider_tenant_sessions_total{model_name=\"m\",tenant=\"robot-999\"} 1"));
  EXPECT_THAT(text, Not(HasSubstr("robot-1000")));
  EXPECT_THAT(
      text, HasSubstr("outrider_tenant_sessions_total{model_name=\"m\",tenant=\"(others)\"} 200"));
}

}  // namespace
}  // namespace outrider
