// Server and edge over a link of either kind, and outrider-bench link as a user runs it.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "common/base/json.h"
#include "emulation/link/link.h"
#include "emulation/path/link_spec.h"
#include "emulation/process/process.h"
#include "emulation/process/server_process.h"
#include "tests/support/paths.h"

namespace outrider {
namespace {

using std::chrono::minutes;
using testing::HasSubstr;

FinishedProcess run_program(const std::string& name, std::vector<std::string> arguments,
                            const NetworkSide& side = {}) {
  ProcessOptions options{bin_dir() + "/" + name, std::move(arguments), {}};
  options.network_namespace = side.network_namespace;
  const auto done = run_process(options, minutes(2));
  EXPECT_TRUE(done.ok()) << done.status().to_string();
  return done.ok() ? *done : FinishedProcess{};
}

// The figures of one answer that crossed the link.
Json answer_over(Link& link) {
  const auto server = ServerProcess::start_program(
      bin_dir() + "/outrider-server",
      {"--model", source_dir() + "/models/demo-target", "--log-level", "warning"}, std::nullopt,
      link.server_side());
  EXPECT_TRUE(server.ok()) << server.status().to_string();
  const auto address = link.route((*server)->address());
  EXPECT_TRUE(address.ok()) << address.status().to_string();
  const FinishedProcess edge = run_program(
      "outrider-edge",
      {"run", "--json", "--insecure", "--server=" + address->to_string(), "--max-tokens=16",
       "--model=" + source_dir() + "/models/demo-draft", "--log-level=warning",
       "--prompt=In view: red cup (straight ahead, 1.0 m). Find the red cup."},
      link.edge_side());
  EXPECT_EQ(edge.exit_code, 0) << edge.err;
  const auto json = parse_json(last_line(edge.out), "edge");
  EXPECT_TRUE(json.ok()) << edge.out;
  return json.ok() ? *json : Json();
}

TEST(LinkProgramsTest, AnAnswerIsTheSameOverEitherKind) {
  const LinkProfile profile = *parse_link("lte+loss=1%");
  const auto modelled = start_link(profile, {.seed = 1, .kind = LinkKind::kModelled});
  ASSERT_TRUE(modelled.ok());
  const Json expected = answer_over(**modelled);
  EXPECT_FALSE(expected["ids"].empty());
  EXPECT_GT((*modelled)->traffic().up, 0u);
  const auto emulated = start_link(profile, {.seed = 1, .kind = LinkKind::kEmulated});
  if (!emulated.ok()) GTEST_SKIP() << emulated.status().message();
  EXPECT_EQ(answer_over(**emulated)["ids"], expected["ids"]);
  EXPECT_GT((*emulated)->traffic().down, 0u);
}

TEST(LinkProgramsTest, TheCheckPassesOrIsInconclusive) {
  const FinishedProcess done = run_program(
      "outrider-bench", {"link", "--profile", "ethernet,offline", "--seconds=3", "--idle"});
  const auto json = parse_json(last_line(done.out), "bench");
  ASSERT_TRUE(json.ok()) << done.out << done.err;
  EXPECT_EQ((*json)["check"], "link");
  if (json->contains("inconclusive")) {
    EXPECT_EQ(done.exit_code, 4);
    EXPECT_EQ((*json)["passed"], false);
  } else {
    // 1 where a busy machine made packets late.
    EXPECT_THAT(done.exit_code, testing::AnyOf(0, 1)) << done.err;
    EXPECT_GE((*json)["profiles"]["ethernet"]["rtt_ms"]["achieved_p50"].get<double>(), 1);
    EXPECT_EQ((*json)["profiles"]["ethernet"]["link"], "emulated");
    EXPECT_EQ((*json)["profiles"]["offline"]["probes"]["back"], 0);
  }
}

TEST(LinkProgramsTest, BadInputIsWrongUsage) {
  const std::string folder = testing::TempDir();
  std::ofstream(folder + "empty.trace").flush();
  std::ofstream(folder + "back.trace") << "5\n4\n";
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{"link"}, "--profile or --trace"},
      {{"link", "--profile=lte2"}, "'lte2': unknown"},
      {{"link", "--profile=lte+loss=2"}, "a share from 0% to 100%"},
      {{"link", "--trace=" + folder + "empty.trace"}, "zero bytes"},
      {{"link", "--trace=" + folder + "back.trace"}, "back.trace:2: '4' goes back in time"},
      {{"link", "--profile=lte", "--seconds=1"}, "--seconds"}};
  for (const auto& [arguments, message] : cases) {
    const FinishedProcess done = run_program("outrider-bench", arguments);
    EXPECT_EQ(done.exit_code, 2) << arguments.back();
    EXPECT_THAT(done.err, HasSubstr(message));
  }
  EXPECT_THAT(run_program("outrider-bench", {"link", "--trace=/nowhere"}).err,
              HasSubstr("/nowhere"));
}

}  // namespace
}  // namespace outrider
