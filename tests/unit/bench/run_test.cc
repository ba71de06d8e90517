// outrider-bench's harness as a user runs it: a server, edges and a link between them.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "bench/process/process.h"
#include "common/base/json.h"
#include "tests/support/paths.h"

namespace outrider {
namespace {

using testing::HasSubstr;

FinishedProcess bench(std::vector<std::string> arguments) {
  const auto done = run_process({bin_dir() + "/outrider-bench", std::move(arguments), {}},
                                std::chrono::minutes(5));
  EXPECT_TRUE(done.ok()) << done.status().to_string();
  return done.ok() ? *done : FinishedProcess{};
}

std::string prompts() {
  const std::string path = testing::TempDir() + "bench_prompts.jsonl";
  std::ofstream(path)
      << R"({"prompt":"In view: red cup (straight ahead, 1.0 m). Find the red cup."})";
  return path;
}

std::vector<std::string> command(const std::string& check) {
  return {check, "--target=" + source_dir() + "/models/demo-target",
          "--draft=" + source_dir() + "/models/demo-draft", "--prompts=" + prompts(),
          "--max-tokens=16"};
}

Json last_line(const std::string& text) {
  const std::size_t begin = text.rfind('\n', text.size() - 2);
  const auto json = parse_json(text.substr(begin == std::string::npos ? 0 : begin + 1), "bench");
  EXPECT_TRUE(json.ok()) << text;
  return json.ok() ? *json : Json();
}

TEST(BenchRunTest, PacedCellsTakeTheirPaceAndKeepTheText) {
  std::vector<std::string> arguments = command("run");
  for (const char* flag : {"--strategy=ar,sd", "--pace=table9-5ms", "--json"}) {
    arguments.emplace_back(flag);
  }
  const FinishedProcess done = bench(arguments);
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const Json json = last_line(done.out);
  EXPECT_EQ(json["compared"], 2);
  EXPECT_EQ(json["mismatches"], 0);
  ASSERT_EQ(json["cells"].size(), 2u);
  const Json& ar = json["cells"][0];
  EXPECT_EQ(ar["strategy"], "ar");
  EXPECT_EQ(ar["tau"], 1.0);
  EXPECT_GE(ar["pass_ms"].get<double>(), 17.9);
  EXPECT_GT(ar["tpot_ms"]["value"].get<double>(), 10);  // a busy machine may bunch the tokens
  const Json& sd = json["cells"][1];
  EXPECT_GT(sd["over_ar"]["value"].get<double>(), 0);
  EXPECT_GT(sd["wire_up_per_token"], sd["payload_up_per_token"]);
  EXPECT_EQ(json["summary"]["mirror_over_sd"], Json());
}

TEST(BenchRunTest, WrongUsageIsToldBeforeAnythingIsTimed) {
  std::vector<std::string> arguments = command("run");
  arguments.emplace_back("--pace=moon");
  const FinishedProcess moon = bench(arguments);
  EXPECT_EQ(moon.exit_code, 2);
  EXPECT_THAT(moon.err, HasSubstr("jetson-68m-7b"));
  arguments = command("run");
  arguments.emplace_back("--pace-exits=measured");
  const FinishedProcess measured = bench(arguments);
  EXPECT_EQ(measured.exit_code, 2);
  EXPECT_THAT(measured.err, HasSubstr("outrider-bench exits"));
  arguments = command("cost");
  arguments[2] = "--draft=/nowhere";
  const FinishedProcess cost = bench(arguments);
  EXPECT_NE(cost.exit_code, 0);
  EXPECT_THAT(cost.err, HasSubstr("/nowhere"));
  arguments = command("ablate");
  arguments.emplace_back("queues");
  arguments.emplace_back("--pace=all");
  const FinishedProcess all = bench(arguments);
  EXPECT_EQ(all.exit_code, 2);
  EXPECT_THAT(all.err, HasSubstr("one pace"));
}

TEST(BenchRunTest, AHitStartsTheNextPassAtOnce) {
  const FinishedProcess done = bench({"sync", "--tokens=60"});
  const Json json = last_line(done.out);
  EXPECT_GE(json["tokens_per_pass"].get<double>(), 2) << done.err;
  EXPECT_GT(json["hits"], 15);
}

}  // namespace
}  // namespace outrider
