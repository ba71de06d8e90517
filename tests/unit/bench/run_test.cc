// outrider-bench's harness as a user runs it: a server, edges and a link between them.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "bench/paces/paces.h"
#include "common/base/json.h"
#include "emulation/process/process.h"
#include "tests/support/paths.h"

namespace outrider {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kArmTool = "/../../aarch64/bin/outrider-rows";

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
  return {check,
          "--target=" + source_dir() + "/models/demo-target",
          "--draft=" + source_dir() + "/models/demo-draft",
          "--prompts=" + prompts(),
          "--max-tokens=16",
          "--num-prompts=1"};
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
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
  const Json json = last_line(done.out);
  // The exit code is 1 if a busy machine has overrun the pace.
  EXPECT_THAT(done.exit_code, testing::AnyOf(4, 1)) << done.err;
  EXPECT_THAT(json.value("inconclusive", ""), HasSubstr("no bar")) << "nothing holds sd";
  EXPECT_GT(json["pace_overruns"]["target at table9-5ms"]["passes"], 0);
  EXPECT_GT(json["pace_overruns"]["draft at table9-5ms"]["passes"], 0);
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
  EXPECT_EQ(json["summary"]["table9"]["mirror_over_sd"], Json());
}

TEST(BenchRunTest, WrongUsageIsToldBeforeAnythingIsTimed) {
  std::vector<std::string> arguments = command("run");
  arguments.emplace_back("--pace=moon");
  const FinishedProcess moon = bench(arguments);
  EXPECT_EQ(moon.exit_code, 2);
  EXPECT_THAT(moon.err, HasSubstr("jetson-68m-7b"));
  arguments = command("run");
  arguments.emplace_back("--pace-exits=measured");
  arguments.emplace_back("--device=cuda");
  const FinishedProcess measured = bench(arguments);
  EXPECT_EQ(measured.exit_code, 2);
  EXPECT_THAT(measured.err, HasSubstr("--device cuda")) << "only a CPU's exits can be timed";
  EXPECT_THAT(measured.err, HasSubstr("Remedy: --exit-cost"));
}

// Each answer's parts, which a run keeps, sum to its whole, which is computed over time.
TEST(BenchRunTest, TheEnergyOfAnswersIsModelledPartByPart) {
  const std::string out = testing::TempDir() + "bench_energy";
  std::filesystem::remove_all(out);
  std::vector<std::string> arguments = command("run");
  for (const char* flag : {"--network=lte,wifi", "--strategy=ar,sd,mirror,sd-cloud,edge-only",
                           "--clock=virtual", "--exit-cost=1", "--json"}) {
    arguments.emplace_back(flag);
  }
  const std::string devices = source_dir() + "/bench/cost/devices";
  arguments.push_back("--device-file=" + devices + "/phone.toml");
  arguments.push_back("--server-file=" + devices + "/a100-share.toml");
  arguments.push_back("--out=" + out);
  const FinishedProcess first = bench(arguments), resumed = bench(arguments);
  ASSERT_THAT(first.err, HasSubstr("report.md"));
  const auto sum = [](const Json& parts) {
    double joules = 0;
    for (const auto& [part, value] : parts.items()) joules += value.get<double>();
    return joules;
  };
  std::ifstream journal(out + "/requests.jsonl");
  std::string line;
  int answers = 0;
  std::getline(journal, line);  // the run
  while (std::getline(journal, line)) {
    const Json request = *parse_json(line, "a request");
    const Json& energy = request["energy"];
    const double whole = energy["joules"];
    const double server = energy["server"].is_null() ? 0 : sum(energy["server"]);
    EXPECT_NEAR(sum(energy["device"]) + server, whole, 1e-9 * whole) << line;
    EXPECT_EQ(energy["server"].is_null(), request["variant"] == "edge-only");
    ++answers;
  }
  EXPECT_EQ(answers, 10);
  const Json cells = parse_json(text_of(out + "/report.json"), "the report")->at("cells");
  const auto parts = [&](std::size_t cell) { return cells[cell]["energy"]["device_parts"]; };
  EXPECT_EQ(parts(0)["compute"], 0) << "ar drafts nothing";
  EXPECT_GT(parts(1)["compute"], 0);
  EXPECT_GT(parts(2)["compute"], parts(1)["compute"]) << "mirror drafts ahead";
  EXPECT_EQ(parts(3)["compute"], 0) << "sd-cloud drafts on the server";
  EXPECT_EQ(parts(4)["radio"], 0) << "edge-only sends nothing";
  EXPECT_THAT(text_of(out + "/report.md"), HasSubstr("## Energy, modelled"));
  EXPECT_THAT(text_of(out + "/report.md"), HasSubstr("estimates: idle"));
  EXPECT_EQ(last_line(first.out)["cells"], last_line(resumed.out)["cells"]);
}

// A resumed run keeps the cost with which it began.
TEST(BenchRunTest, WithoutAFlagTheExitsOfTheTargetAreTimed) {
  const std::string out = testing::TempDir() + "bench_exit_cost";
  std::filesystem::remove_all(out);
  std::vector<std::string> arguments = command("run");
  for (const char* flag : {"--network=lte", "--strategy=ar,mirror", "--clock=virtual", "--json"}) {
    arguments.emplace_back(flag);
  }
  arguments.push_back("--out=" + out);
  const FinishedProcess first = bench(arguments), again = bench(arguments);
  EXPECT_THAT(first.err, HasSubstr("exit cost: 1."));
  const Json experiment = last_line(first.out)["experiment"];
  EXPECT_GE(experiment["exit_cost"], 1.0);
  EXPECT_EQ(experiment["exit_cost_measured"], true);
  EXPECT_THAT(again.err, Not(HasSubstr("exit cost")));
  EXPECT_EQ(last_line(again.out)["experiment"]["exit_cost"], experiment["exit_cost"]);
}

// One prompt has no interval.
TEST(BenchRunTest, APageOfAnInconclusiveRunNamesNoFastest) {
  const std::string page = testing::TempDir() + "bench_inconclusive.html";
  std::vector<std::string> arguments = command("run");
  for (const char* flag :
       {"--network=lte", "--strategy=ar,mirror", "--clock=virtual", "--exit-cost=1.1", "--json"}) {
    arguments.emplace_back(flag);
  }
  arguments.push_back("--html=" + page);
  EXPECT_EQ(bench(arguments).exit_code, 4);
  EXPECT_THAT(text_of(page), HasSubstr("This run is inconclusive: "));
  EXPECT_THAT(text_of(page), Not(HasSubstr("Fastest:")));
}

TEST(BenchRunTest, AnInconclusiveRunDoesNotPass) {
  std::vector<std::string> run = command("run");
  run.emplace_back("--strategy=ar");
  run.emplace_back("--pace=unpaced");
  const std::vector<std::string> acceptance = command("acceptance");
  const std::vector<std::string> rows = {"rows", "--model=" + source_dir() + "/models/demo-draft",
                                         "--cases=1"};
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {run, "no bar"}, {acceptance, "--least"}, {rows, "Arm"}};
  for (const auto& [arguments, reason] : cases) {
    if (arguments == rows && std::filesystem::exists(bin_dir() + kArmTool)) continue;
    const FinishedProcess done = bench(arguments);
    const Json json = last_line(done.out);
    EXPECT_EQ(done.exit_code, 4) << arguments.front() << ": " << done.exit_code << " " << done.err;
    EXPECT_EQ(json["passed"], false);
    EXPECT_THAT(json.value("inconclusive", ""), HasSubstr(reason));
  }
}

// A run in virtual time over two prompts, kept in `out`.
std::vector<std::string> virtual_run(const std::string& out) {
  const std::string path = testing::TempDir() + "bench_two_prompts.jsonl";
  std::ofstream(path) << "{\"prompt\":\"In view: red cup (straight ahead, 1.0 m).\"}\n"
                         "{\"prompt\":\"Go to the door.\"}\n";
  std::vector<std::string> arguments = command("run");
  arguments[3] = "--prompts=" + path;
  arguments[5] = "--num-prompts=2";
  for (const char* flag : {"--network=lte,wifi", "--strategy=ar,sd,mirror", "--clock=virtual",
                           "--exit-cost=1.15", "--json"}) {
    arguments.emplace_back(flag);
  }
  arguments.push_back("--out=" + out);
  arguments.push_back("--html=" + out + "/page.html");
  return arguments;
}

TEST(BenchRunTest, AVirtualRunIsKeptGoneOnWithAndCompared) {
  const std::string out = testing::TempDir() + "bench_virtual_run";
  std::filesystem::remove_all(out);
  const FinishedProcess done = bench(virtual_run(out));
  // So few packets: none of them may have been lost.
  EXPECT_THAT(done.exit_code, testing::AnyOf(0, 1, 4)) << done.err;
  const Json json = last_line(done.out);
  EXPECT_EQ(json["compared"], 12);
  EXPECT_EQ(json["mismatches"], 0);
  EXPECT_EQ(json["failed"], 0);
  const Json report = *parse_json(text_of(out + "/report.json"), "report");
  EXPECT_EQ(report["clock"].get<std::string>(), "virtual");
  ASSERT_EQ(report["cells"].size(), 6u);
  EXPECT_EQ(report["cells"][0]["link"].get<std::string>(), "simulated");
  EXPECT_GT(report["cells"][0]["rtt_p50_ms"], Json());
  EXPECT_THAT(text_of(out + "/page.html"), HasSubstr("What wins where"));
  // Half of the journal is lost.
  const std::string journal = text_of(out + "/requests.jsonl");
  std::filesystem::resize_file(out + "/requests.jsonl", journal.size() / 2);
  const FinishedProcess again = bench(virtual_run(out));
  EXPECT_THAT(again.err, HasSubstr("of an earlier run"));
  EXPECT_EQ(last_line(again.out)["cells"], json["cells"]) << "the same figures";
  std::vector<std::string> other = virtual_run(out);
  other.emplace_back("--seed=7");
  const FinishedProcess refused = bench(other);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--fresh"));
  const FinishedProcess same = bench({"compare", out + "/report.json", out + "/report.json"});
  EXPECT_EQ(same.exit_code, 0) << same.err;
}

// The draft is at the answer's end long before a far target is.
TEST(BenchRunTest, WhatIsUnverifiedByADeadlineIsCountedApart) {
  std::vector<std::string> arguments = command("run");
  arguments[4] = "--max-tokens=60";
  for (const char* flag : {"--strategy=ar,mirror", "--network=delay=200ms", "--pace=orin-nano",
                           "--deadline-ms=800", "--slo-unverified", "--exit-cost=1", "--json"}) {
    arguments.emplace_back(flag);
  }
  arguments.emplace_back("--clock=virtual");
  const std::string out = testing::TempDir() + "bench_by_deadline";
  std::filesystem::remove_all(out);
  arguments.push_back("--out=" + out);
  const FinishedProcess done = bench(arguments);
  const Json report = *parse_json(text_of(out + "/report.json"), done.err);
  EXPECT_TRUE(report["cells"][0]["by_deadline"].is_null()) << "plain decoding has no draft";
  const Json& mirror = report["cells"][1]["by_deadline"];
  EXPECT_EQ(mirror["whole"], 1);
  EXPECT_EQ(mirror["verified"], 0);
  EXPECT_EQ(mirror["unverified"], 1);
  EXPECT_EQ(report["cells"][1]["deadline_missed"], 1) << "a limit counts what is verified";
  EXPECT_THAT(text_of(out + "/report.md"), HasSubstr("1 of 1 answers are whole by 800 ms"));
}

// A run over two links, one near and one far.
TEST(BenchRunTest, DraftingBesideTheTargetPaysNoLink) {
  std::vector<std::string> arguments = command("run");
  for (const char* flag :
       {"--strategy=ar,sd-cloud-best,block-cloud,mirror-sd,edge-strong", "--clock=virtual",
        "--pace=table9-5ms,table9-95ms", "--exit-cost=1", "--json"}) {
    arguments.emplace_back(flag);
  }
  const FinishedProcess done = bench(arguments);
  const Json json = last_line(done.out);
  EXPECT_EQ(json["compared"], 2 * (1 + 3 * 7 + 1)) << done.err;
  EXPECT_EQ(json["mismatches"], 0);
  ASSERT_EQ(json["cells"].size(), 10u);
  const auto tpot = [&](std::size_t cell) { return json["cells"][cell]["tpot_ms"]["value"]; };
  for (std::size_t rival = 1; rival < 5; ++rival) {
    EXPECT_NEAR(tpot(rival).get<double>(), tpot(5 + rival).get<double>(), 0.5) << rival;
  }
  EXPECT_EQ(tpot(4), tpot(9)) << "a strong edge has no link";
  EXPECT_LT(tpot(2).get<double>(), tpot(1).get<double>()) << "a block takes one step";
  EXPECT_LT(tpot(3).get<double>(), tpot(1).get<double>()) << "it drafts during the pass";
  EXPECT_LT(tpot(1).get<double>(), tpot(0).get<double>());
}

std::string example_prices() {
  return source_dir() + "/bench/cost/files/example-prices.toml";
}

TEST(BenchRunTest, ARunWithPricesSaysWhatAnswersCostAndShowsBothSidesOfOne) {
  const std::string out = testing::TempDir() + "bench_priced";
  std::filesystem::remove_all(out);
  std::vector<std::string> arguments = virtual_run(out);
  arguments.push_back("--price-file=" + example_prices());
  bench(arguments);
  const Json report = *parse_json(text_of(out + "/report.json"), "report");
  for (const Json& cell : report["cells"]) {
    EXPECT_GT(cell["cost"]["api_stateless"].get<double>(), 0);
    EXPECT_GT(cell["cost"]["gpu_reserved"].get<double>(), cell["cost"]["gpu_shared"].get<double>());
  }
  EXPECT_EQ(report["break_even"].size(), 2u) << "sd and mirror";
  const std::string page = text_of(out + "/page.html");
  EXPECT_THAT(page, HasSubstr("Cost over the round trip"));
  EXPECT_THAT(page, HasSubstr("One answer on both sides"));
  EXPECT_THAT(page, HasSubstr("nodes</title>")) << "a round on its way";
  EXPECT_LT(page.size(), 2u << 20);
  // `price` makes the same of the report.
  const FinishedProcess priced =
      bench({"price", "--price-file=" + example_prices(), "--report=" + out + "/report.json"});
  EXPECT_EQ(priced.exit_code, 0) << priced.err;
  EXPECT_EQ(last_line(priced.out)["break_even"], report["break_even"]);
}

TEST(BenchRunTest, PricesThatAreMissingAreNamedBeforeAnythingRuns) {
  const std::string out = testing::TempDir() + "bench_unpriced";
  std::vector<std::string> arguments = virtual_run(out);
  arguments.push_back("--price-file=" + out + ".toml");
  const FinishedProcess done = bench(arguments);
  EXPECT_EQ(done.exit_code, 2);
  EXPECT_THAT(done.err, HasSubstr("bench_unpriced.toml"));
}

TEST(BenchRunTest, TheLawSaysWhereDraftingStopsPaying) {
  const FinishedProcess done = bench({"price", "--price-file=" + example_prices(), "--tau=3.5"});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  const Json modelled = last_line(done.out)["modelled"];
  // Table 9's devices: 3.5 passes of one row saved, less 4 draft steps and a pass of 5 rows.
  const double saved = 3.5 * table9_pass_ms(1) - 4 * table9_step_ms(1) - table9_pass_ms(5);
  EXPECT_NEAR(modelled["time"]["round_trip_ms"].get<double>(), saved, 1e-6) << modelled.dump();
  EXPECT_NEAR(modelled["gpu_reserved"]["round_trip_ms"].get<double>(), saved, 1e-6);
  EXPECT_FALSE(modelled["api_stateless"].contains("round_trip_ms")) << "not billed by time";
  EXPECT_TRUE(modelled["api_stateless"]["acceptance"].is_null()) << "at these prices never";
}

TEST(BenchRunTest, ALinkWhoseImpairmentsWereNotMetIsInconclusive) {
  const std::string out = testing::TempDir() + "bench_evidence";
  std::filesystem::remove_all(out);
  std::vector<std::string> arguments = virtual_run(out);
  arguments[6] = "--network=ethernet+blackout=900s/1000s,ethernet+loss=20%";
  const FinishedProcess done = bench(arguments);
  EXPECT_THAT(done.exit_code, testing::AnyOf(4, 1)) << done.err;
  const Json json = last_line(done.out);
  ASSERT_EQ(json["missing_evidence"].size(), 2u) << "the losses were met";
  EXPECT_THAT(json["missing_evidence"][1].get<std::string>(), HasSubstr("mirror met no black-out"));
  EXPECT_THAT(json.value("inconclusive", ""), HasSubstr("ar met no black-out"));
  const Json report = *parse_json(text_of(out + "/report.json"), "report");
  EXPECT_EQ(report["cells"][0]["link_in_run"]["met"], (Json{{"black-out", false}}));
  EXPECT_EQ(report["cells"][3]["link_in_run"]["met"], (Json{{"packet loss", true}}));
  EXPECT_GT(report["cells"][3]["link_in_run"]["counts"]["up"]["lost"], 0);
  arguments[6] = "--network=ethernet+loss=20%";
  arguments.emplace_back("--fresh");
  arguments.emplace_back("--least-answers=3");
  const FinishedProcess few = bench(arguments);
  EXPECT_THAT(last_line(few.out).value("inconclusive", ""), HasSubstr("ar has 2 answers of the 3"));
}

TEST(BenchRunTest, FewerPromptsThanAreAskedForAreRefused) {
  std::vector<std::string> arguments = command("run");
  arguments[5] = "--num-prompts=2";
  arguments.emplace_back("--exit-cost=1.15");
  const FinishedProcess done = bench(arguments);
  EXPECT_EQ(done.exit_code, 2);
  EXPECT_THAT(done.err, HasSubstr("--num-prompts 1"));
}

TEST(BenchRunTest, AWrongTokenMakesTheRunInvalid) {
  const std::string out = testing::TempDir() + "bench_corrupted";
  std::filesystem::remove_all(out);
  std::vector<std::string> arguments = virtual_run(out);
  arguments.emplace_back("--corrupt-variant=sd");
  const FinishedProcess done = bench(arguments);
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_EQ(last_line(done.out)["mismatches"], 4);
  const Json report = *parse_json(text_of(out + "/report.json"), "report");
  EXPECT_EQ(report["valid"], false);
  EXPECT_EQ(report["cells"][1]["valid"], false);
  EXPECT_EQ(report["cells"][0]["valid"], true);
  EXPECT_THAT(text_of(out + "/page.html"), HasSubstr("This run is invalid"));
}

// A form of answers that the edges refuse: it came to plain decoding's edge first.
TEST(BenchRunTest, AFlagOfEveryEdgeComesToAllOfThem) {
  std::vector<std::string> arguments = command("exact");
  arguments.emplace_back("--strategy=sd");
  arguments.emplace_back("--edge-flag=--json-schema={\"type\":\"no such type\"}");
  const FinishedProcess done = bench(arguments);
  EXPECT_EQ(done.exit_code, 2);
  EXPECT_THAT(done.err, HasSubstr("no such type"));
}

TEST(BenchRunTest, AScenarioAndTheVirtualClockAreHeldToSense) {
  const std::string path = testing::TempDir() + "bench_scenario.toml";
  std::ofstream(path) << "strategy = [\"ar\"]\nclock = \"virtual\"\npace = \"unpaced\"\n";
  std::vector<std::string> arguments = command("run");
  arguments.push_back("--scenario=" + path);
  const FinishedProcess unpaced = bench(arguments);
  EXPECT_EQ(unpaced.exit_code, 2);
  EXPECT_THAT(unpaced.err, HasSubstr("unpaced"));
  std::ofstream(path) << "stratgy = [\"ar\"]\n";
  const FinishedProcess unknown = bench(arguments);
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("Did you mean 'strategy'?"));
}

TEST(BenchRunTest, AHitStartsTheNextPassAtOnce) {
  const FinishedProcess done = bench({"sync", "--tokens=60"});
  const Json json = last_line(done.out);
  EXPECT_GE(json["tokens_per_pass"].get<double>(), 2) << done.err;
  EXPECT_GT(json["hits"], 15);
}

}  // namespace
}  // namespace outrider
