// The start of outrider-server, what it refuses, and its end, with a model that does no work.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <fstream>
#include <thread>

#include "common/decoding/exits/adapters.h"
#include "common/engine/model/loader/loader.h"
#include "tests/unit/cloud_server/server_program.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ServerProgram, SaysWhatItServesAndWhere) {
  RunningServer program({"--model", "null:77", "--port", "0"});
  EXPECT_THAT(program.read_until("ready"),
              AllOf(HasSubstr("model"), HasSubstr("vocabulary 77"), HasSubstr("fingerprint"),
                    HasSubstr("listening    127.0.0.1:")));
  EXPECT_GT(program.address().port, 0);
}

TEST(ServerProgram, ListensOnALiteralOfIpv6) {
  RunningServer program({"--model", "null:", "--host", "::1", "--port", "0"});
  const std::string& text = program.read_until("ready");
  if (text.find("Cannot assign") != std::string::npos) GTEST_SKIP() << "there is no IPv6 here";
  const std::size_t at = text.find("[::1]:");
  ASSERT_NE(at, std::string::npos) << text;
  TestEdge edge(*parse_address(text.substr(at, text.find('\n', at) - at)));
  edge.open(null_open());
  EXPECT_EQ(edge.finish(), Status());
}

TEST(ServerProgram, RefusesPortsAndHostsWithAReason) {
  expect_failure({"--model", "null:", "--port", "70000"}, 2, HasSubstr("70000"));
  expect_failure({"--model", "null:", "--port", "0", "--host", "0.0.0.0"}, 2,
                 HasSubstr("--insecure"));
  expect_failure({"--model", "null:0"}, 2, HasSubstr("must be 1 to"));
  expect_failure({"--model", "/no/such/model"}, 1, HasSubstr("/no/such/model"));
  expect_failure({}, 2, HasSubstr("--model"));
}

// A model directory without adapters.
const std::string kPlain = source_dir() + "/models/demo-draft";

ModelInfo info_of(const std::string& directory) {
  LoadOptions options;
  options.directory = directory;
  options.threads = 1;
  return (*load_model(options))->info();
}

TEST(ServerProgram, ServesALevelOfAnElasticModelUnderItsName) {
  const std::string target = source_dir() + "/models/demo-target";
  const std::string table = target + "/elastic.json";
  RunningServer program(
      {"--model", target, "--elastic", table, "--level", "60", "--port", "0", "--threads", "1"});
  EXPECT_THAT(program.read_until("ready"),
              AllOf(HasSubstr("demo-target@60"), HasSubstr("OFF because of --level 60")));
  expect_failure({"--model", target, "--elastic", table, "--level", "61", "--port", "0"}, 1,
                 HasSubstr("100, 90, 80, 70, 60, 50, 40"));
  expect_failure({"--model", target, "--level", "60", "--port", "0"}, 1, HasSubstr("--elastic"));
  expect_failure({"--model", kPlain, "--elastic", table, "--port", "0"}, 2,
                 HasSubstr("another model's"));
  expect_failure({"--model", "null:", "--elastic", table}, 2, HasSubstr("no units"));
}

TEST(ServerProgram, WithoutAdaptersItServesAndSaysThatThereAreNoExits) {
  RunningServer program({"--model", kPlain, "--port", "0", "--threads", "1"});
  EXPECT_THAT(program.read_until("ready"),
              HasSubstr("adapters.json: no such file; edges speculate without"));
  EXPECT_GT(program.address().port, 0);
}

TEST(ServerProgram, SaysAfterWhichLayersItReports) {
  const TestDirectory adapters;
  const std::int32_t layers[] = {1, 2};
  ASSERT_TRUE(save_adapters(adapters.path(), random_adapters(info_of(kPlain), layers, 4, 1)).ok());
  for (const auto& [exits, shown] :
       {std::pair("auto", "after layers 1, 2"), std::pair("all", "after layers 1, 2"),
        std::pair("2", "after layers 2"), std::pair("none", "none (--exits none)")}) {
    RunningServer program({"--model", kPlain, "--port", "0", "--threads", "1", "--adapters",
                           adapters.path(), "--exits", exits});
    EXPECT_THAT(program.read_until("ready"), HasSubstr("exits        " + std::string(shown)));
  }
}

TEST(ServerProgram, RefusesAdaptersThatDoNotFitWithAReason) {
  const TestDirectory adapters;
  const std::vector<std::string> start = {"--model", kPlain,       "--port",
                                          "0",       "--adapters", adapters.path()};
  const auto with = [&](const char* exits) {
    std::vector<std::string> arguments = start;
    arguments.insert(arguments.end(), {"--exits", exits});
    return arguments;
  };
  expect_failure(start, 1, HasSubstr("adapters.json: no such file"));
  const std::int32_t layers[] = {1};
  ModelInfo info = info_of(kPlain);
  ASSERT_TRUE(save_adapters(adapters.path(), random_adapters(info, layers, 4, 1)).ok());
  expect_failure(with("2"), 2, HasSubstr("no adapter after layer 2; these have one: 1"));
  expect_failure(with("some"), 2, HasSubstr("must be auto, none, all"));
  info.fingerprint = std::string(64, '0');
  ASSERT_TRUE(save_adapters(adapters.path(), random_adapters(info, layers, 4, 1)).ok());
  expect_failure(start, 1,
                 HasSubstr("Remedy: train exits for this target (`outrider-train exits`)"));
  expect_failure({"--model", "null:", "--exits", "all"}, 2, HasSubstr("no layers to exit from"));
  expect_failure({"--model", kPlain, "--exits", "all"}, 1, HasSubstr("adapters.json"));
}

TEST(ServerProgram, ABadPriceFileIsRefusedAtTheStart) {
  expect_failure({"--model", "null:", "--port", "0", "--price-file", "/no/such.toml"}, 1,
                 HasSubstr("/no/such.toml"));
  const TestDirectory folder;
  const std::string path = folder.path() + "/prices.toml";
  std::ofstream(path) << "date = \"2026-01-31\"\n[api]\ninput = 1\n";
  expect_failure({"--model", "null:", "--port", "0", "--price-file", path}, 2,
                 HasSubstr("[api] lacks 'output'"));
}

TEST(ServerProgram, RefusesTooLittleMemoryForOneSessionWithTheRemedy) {
  expect_failure({"--model", kPlain, "--port", "0", "--threads", "1", "--kv-cache-memory", "1K"}, 2,
                 AllOf(HasSubstr("--kv-cache-memory 1K"), HasSubstr("less than one session")));
  expect_failure({"--model", kPlain, "--port", "0", "--threads", "1", "--kv-cache-memory", "lots"},
                 2, HasSubstr("must be auto, or bytes like 500M, 12G"));
}

TEST(ServerProgram, RefusesABatchThatIsTooSmallForOneSessionWithTheRemedy) {
  expect_failure({"--model", "null:", "--port", "0", "--max-batched-rows", "32"}, 2,
                 AllOf(HasSubstr("--max-batched-rows"), HasSubstr("32 rows"),
                       HasSubstr("Remedy: 33 to 8192")));
  expect_failure({"--model", "null:", "--port", "0", "--prefill-budget", "0"}, 2,
                 HasSubstr("--prefill-budget"));
}

TEST(ServerProgram, MaxModelLenLowersTheContextThatASessionMayUse) {
  RunningServer program({"--model", "null:", "--port", "0", "--max-model-len", "40"});
  EXPECT_THAT(program.read_until("ready"), HasSubstr("context      40 tokens"));
  TestEdge edge(program.address());
  edge.open(null_open());  // requests 2000 tokens
  EXPECT_EQ(edge.await<Opened>().limits.max_positions, 40);
  EXPECT_EQ(edge.finish(), Status());
  EXPECT_EQ(edge.answer().size(), 39u);
}

TEST(ServerProgram, RefusesAContextThatTheModelDoesNotHaveWithBothNumbers) {
  for (const char* bad : {"0", "-1", "1025"}) {
    expect_failure({"--model", kPlain, "--port", "0", "--threads", "1", "--max-model-len", bad}, 2,
                   AllOf(HasSubstr(bad), HasSubstr("1024"), HasSubstr("--max-model-len")));
  }
  expect_failure({"--model", "null:", "--max-model-len", "65537"}, 2,
                 AllOf(HasSubstr("65537"), HasSubstr("65536")));
}

TEST(ServerProgram, ATakenPortEndsItWithTheRemedy) {
  RunningServer first({"--model", "null:", "--port", "0"});
  const std::string port = std::to_string(first.address().port);
  expect_failure({"--model", "null:", "--port", port}, 1,
                 AllOf(HasSubstr("Address already in use"), HasSubstr("another host or port")));
}

TEST(ServerProgram, SigtermLetsSessionsFinishAndExitsWithZero) {
  RunningServer program({"--model", "null:", "--port", "0"});
  TestEdge edge(program.address());
  edge.open(null_open());
  edge.await<Verdict>();  // and pauses, because nothing is acknowledged
  program.signal(SIGTERM);
  EXPECT_EQ(edge.await<Notice>().kind, Notice::Kind::kReconnectSoon);
  const Status ended = edge.finish();
  EXPECT_TRUE(ended.ok()) << ended.to_string();
  EXPECT_EQ(edge.answer().size(), 1999u);
  EXPECT_EQ(program.wait(), 0);
}

TEST(ServerProgram, ASecondSignalCutsWhatIsLeft) {
  RunningServer program({"--model", "null:", "--port", "0"});
  TestEdge edge(program.address());
  edge.open(null_open());
  edge.await<Verdict>();
  program.signal(SIGTERM);
  edge.await<Notice>();
  program.signal(SIGTERM);
  EXPECT_EQ(edge.finish().code(), StatusCode::kUnavailable);
  EXPECT_EQ(program.wait(), 0);
}

TEST(ServerProgram, TheShutdownTimeoutCutsWhatIsLeft) {
  RunningServer program({"--model", "null:", "--port", "0", "--shutdown-timeout", "0.1"});
  TestEdge edge(program.address());
  edge.open(null_open());
  edge.await<Verdict>();
  const auto begin = std::chrono::steady_clock::now();
  program.signal(SIGTERM);
  edge.await<Notice>();
  EXPECT_EQ(edge.finish().code(), StatusCode::kUnavailable) << "its answer was not complete";
  EXPECT_EQ(program.wait(), 0);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, from_ms(100));
}

// A test that starts the server, tells its process id and is killed: whether the server ends too.
bool ends_with_its_killed_test() {
  std::array<int, 2> ends;
  EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  const pid_t test = fork();
  if (test == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    RunningServer program({"--model", "null:", "--port", "0"});
    program.read_until("ready");
    const pid_t pid = program.pid();
    static_cast<void>(!write(ends[1], &pid, sizeof pid));
    while (true) pause();
  }
  close(ends[1]);
  pid_t server = 0;
  EXPECT_EQ(read(ends[0], &server, sizeof server), static_cast<ssize_t>(sizeof server));
  close(ends[0]);
  EXPECT_GT(server, 0);
  kill(test, SIGKILL);
  waitpid(test, nullptr, 0);
  const std::string exe = "/proc/" + std::to_string(server) + "/exe";
  for (int i = 0; i < 500; ++i) {
    if (access(exe.c_str(), F_OK) != 0) return true;  // gone, or nobody has asked how it ended
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(server, SIGKILL);
  return false;
}

TEST(ServerProgram, EndsWithTheTestThatStartedIt) {
  EXPECT_TRUE(ends_with_its_killed_test());
}

}  // namespace
}  // namespace outrider
