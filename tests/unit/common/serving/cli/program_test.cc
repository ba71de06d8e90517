// SPDX-License-Identifier: Apache-2.0
#include "common/serving/cli/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A program like ours: one flag of its own, two commands that share a flag.
struct Sample {
  Sample() {
    run = program.app().add_subcommand("run", "Answer one prompt");
    run->add_option("-p,--prompt", prompt, "Prompt");
    run->add_option("-T,--temp", temperature, "Temperature")->check(CLI::Range(0.0, 100.0));
    run->add_option("--seed", seed, "Seed");
    run->add_option("--stop", stop, "Stop string");
    run->add_flag("--json", json, "JSON");
    chat = program.app().add_subcommand("chat", "Talk");
    chat->add_option("--temp", temperature, "Temperature")->check(CLI::Range(0.0, 100.0));
    program.app().require_subcommand(1);
  }

  // Exit code, or -1 if the program goes on. What was printed is in `out` and `err`.
  int parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "sample");
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const std::optional<int> code =
        program.parse(static_cast<int>(arguments.size()), arguments.data());
    out = ::testing::internal::GetCapturedStdout();
    err = ::testing::internal::GetCapturedStderr();
    return code.value_or(-1);
  }

  Program program{"sample", "A sample."};
  CLI::App* run = nullptr;
  CLI::App* chat = nullptr;
  std::string prompt;
  float temperature = 0.25f;
  std::uint64_t seed = 1;
  std::vector<std::string> stop;
  bool json = false;
  std::string out;
  std::string err;
};

class ProgramTest : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const char* name : {"OUTRIDER_TEMP", "OUTRIDER_JSON", "OUTRIDER_CONFIG"}) unsetenv(name);
    std::filesystem::remove(path_);
  }
  const char* write_config(const std::string& text) {
    std::ofstream(path_) << text;
    return path_.c_str();
  }

  std::string path_ = ::testing::TempDir() + "outrider_program_test_" + std::to_string(getpid());
};

TEST_F(ProgramTest, FlagBeatsEnvironmentBeatsFileBeatsDefault) {
  const char* file = write_config("temp = 3\n");
  Sample by_default;
  EXPECT_EQ(by_default.parse({"run"}), -1);
  EXPECT_EQ(by_default.temperature, 0.25f);
  Sample by_file;
  EXPECT_EQ(by_file.parse({"run", "--config", file}), -1);
  EXPECT_EQ(by_file.temperature, 3.0f);
  setenv("OUTRIDER_TEMP", "2", 1);
  Sample by_environment;
  EXPECT_EQ(by_environment.parse({"--config", file, "run"}), -1);
  EXPECT_EQ(by_environment.temperature, 2.0f);
  Sample by_flag;
  EXPECT_EQ(by_flag.parse({"run", "--config", file, "--temp", "1"}), -1);
  EXPECT_EQ(by_flag.temperature, 1.0f);
}

TEST_F(ProgramTest, EnvironmentNamesTheConfigFileAndSwitchesFlags) {
  setenv("OUTRIDER_CONFIG", write_config("[run]\nseed = 18446744073709551615\nstop = ['a', 'b']\n"),
         1);
  setenv("OUTRIDER_JSON", "1", 1);
  Sample sample;
  EXPECT_EQ(sample.parse({"run"}), -1) << sample.err;
  EXPECT_EQ(sample.seed, 18446744073709551615u);
  EXPECT_THAT(sample.stop, ElementsAre("a", "b"));
  EXPECT_TRUE(sample.json);
}

TEST_F(ProgramTest, ASectionIsForItsCommandOnly) {
  const char* file = write_config("[chat]\ntemp = 3\n");
  Sample sample;
  EXPECT_EQ(sample.parse({"run", "--config", file}), -1);
  EXPECT_EQ(sample.temperature, 0.25f);
}

TEST_F(ProgramTest, AMissingConfigFileIsAnError) {
  Sample sample;
  EXPECT_EQ(sample.parse({"run", "--config", "/nowhere/x.toml"}), kExitUsage);
  EXPECT_THAT(sample.err, HasSubstr("/nowhere/x.toml"));
  setenv("OUTRIDER_CONFIG", "/nowhere/y.toml", 1);
  Sample by_environment;
  EXPECT_EQ(by_environment.parse({"run"}), kExitUsage);
  EXPECT_THAT(by_environment.err, HasSubstr("/nowhere/y.toml"));
}

TEST_F(ProgramTest, AnUnknownKeyIsNamedWithLineAndNearestMatch) {
  Sample key;
  EXPECT_EQ(key.parse({"run", "--config", write_config("seed = 1\ntmep = 3\n")}), kExitUsage);
  EXPECT_THAT(key.err, HasSubstr(path_ + ":2: unknown key 'tmep'. Did you mean 'temp'?"));
  Sample section;
  EXPECT_EQ(section.parse({"run", "--config", write_config("[rum]\nseed = 1\n")}), kExitUsage);
  EXPECT_THAT(section.err, HasSubstr(":2: unknown section 'rum'. Did you mean 'run'?"));
}

TEST_F(ProgramTest, AMisspeltFlagOrCommandIsNamedWithNearestMatch) {
  Sample flag;
  EXPECT_EQ(flag.parse({"run", "--tepm=0.5"}), kExitUsage);
  EXPECT_THAT(flag.err, HasSubstr("unknown argument '--tepm'. Did you mean '--temp'?"));
  Sample global;
  EXPECT_EQ(global.parse({"run", "--log-lvel", "info"}), kExitUsage);
  EXPECT_THAT(global.err, HasSubstr("Did you mean '--log-level'?"));
  Sample command;
  EXPECT_EQ(command.parse({"rnu", "--temp", "1"}), kExitUsage);
  EXPECT_THAT(command.err, HasSubstr("unknown argument 'rnu'. Did you mean 'run'?"));
}

TEST_F(ProgramTest, NumbersAreReadStrictly) {
  for (const char* value :
       {"nan", "inf", "1e400", "1e39", "0x1p3", "1_000", " 1", "1 ", "", "101"}) {
    Sample sample;
    EXPECT_EQ(sample.parse({"run", "--temp", value}), kExitUsage) << value;
    EXPECT_THAT(sample.err, HasSubstr("--temp")) << value;
  }
  for (const char* value :
       {"-1", "1e3", "010", "010x", "0x10", "1_000", "18446744073709551616", "1.5"}) {
    Sample sample;
    EXPECT_EQ(sample.parse({"run", "--seed", value}), kExitUsage) << value;
  }
}

TEST_F(ProgramTest, PrintConfigGivesAFileThatReadsBackTheSame) {
  Sample first;
  EXPECT_EQ(first.parse({"run", "--print-config", "-p", "say \"hi\"\n", "--temp", "0.5", "--stop",
                         "x", "--stop", "y"}),
            kExitOk);
  EXPECT_THAT(first.out, HasSubstr("seed = \"1\""));
  Sample second;
  EXPECT_EQ(second.parse({"run", "--config", write_config(first.out)}), -1) << second.err;
  EXPECT_EQ(second.prompt, "say \"hi\"\n");
  EXPECT_EQ(second.temperature, 0.5f);
  EXPECT_THAT(second.stop, ElementsAre("x", "y"));
}

TEST_F(ProgramTest, AFlagWhoseValueWasForgottenTakesNoOtherFlagForIt) {
  Sample forgotten;
  EXPECT_EQ(forgotten.parse({"run", "-p", "--temp", "1"}), kExitUsage);
  EXPECT_THAT(forgotten.err, HasSubstr("--prompt needs a value, and --temp follows"));
  EXPECT_THAT(forgotten.err, HasSubstr("run --help'"));
  Sample meant;
  EXPECT_EQ(meant.parse({"run", "--prompt=--temp", "--temp", "1"}), -1) << meant.err;
  EXPECT_EQ(meant.prompt, "--temp");
}

// -hf and -md are other programs' flags; CLI11 would read help, and -m with the value d.
TEST_F(ProgramTest, AShortFlagIsNotReadOutOfALongerWord) {
  for (const char* word : {"-hf", "-pd", "-pmodel", "-hfp"}) {
    Sample sample;
    EXPECT_EQ(sample.parse({"run", word, "x"}), kExitUsage) << word;
    EXPECT_THAT(sample.err, HasSubstr(std::string("unknown argument '") + word + "'"));
    EXPECT_EQ(sample.out, "");
  }
  Sample after_value;
  EXPECT_EQ(after_value.parse({"run", "-p", "-hf", "--stop", "-pd"}), -1) << after_value.err;
  EXPECT_EQ(after_value.prompt, "-hf");
  Sample number;
  EXPECT_EQ(number.parse({"run", "-T3"}), -1) << number.err;
  EXPECT_EQ(number.temperature, 3.0f);
  Sample unknown;
  EXPECT_EQ(unknown.parse({"run", "-xyz"}), kExitUsage);
  EXPECT_THAT(unknown.err, HasSubstr("unknown argument '-xyz'"));
}

TEST_F(ProgramTest, AWrongValueIsBlamedOnWhoeverSetIt) {
  setenv("OUTRIDER_TEMP", "hot", 1);
  Sample environment;
  EXPECT_EQ(environment.parse({"run"}), kExitUsage);
  EXPECT_THAT(environment.err, HasSubstr("OUTRIDER_TEMP in the environment: --temp"));
  Sample flag;
  EXPECT_EQ(flag.parse({"run", "--temp", "cold"}), kExitUsage);
  EXPECT_THAT(flag.err, ::testing::Not(HasSubstr("environment")));
  unsetenv("OUTRIDER_TEMP");
  Sample file;
  EXPECT_EQ(file.parse({"run", "--config", write_config("seed = 1\ntemp = 101\n")}), kExitUsage);
  EXPECT_THAT(file.err, HasSubstr(path_ + ":2: --temp"));
}

TEST_F(ProgramTest, KubernetesLinksToServicesArePassedOverAndSaid) {
  struct WithPort : Sample {
    WithPort() { program.app().add_option("--port", port, "Port")->check(CLI::Range(0, 65535)); }
    int port = 8001;
  };
  setenv("OUTRIDER_PORT", "tcp://10.0.0.1:8001", 1);
  setenv("OUTRIDER_HTTP_PORT", "tcp://10.0.0.2:80", 1);  // of a Service named outrider-http
  WithPort sample;
  EXPECT_EQ(sample.parse({"run"}), -1) << sample.err;
  EXPECT_EQ(sample.port, 8001);
  EXPECT_THAT(sample.err, HasSubstr("OUTRIDER_PORT is passed over"));
  EXPECT_THAT(sample.err, HasSubstr("OUTRIDER_HTTP_PORT is passed over"));
  EXPECT_EQ(getenv("OUTRIDER_PORT"), nullptr);
  EXPECT_EQ(getenv("OUTRIDER_HTTP_PORT"), nullptr);
  setenv("OUTRIDER_PORT", "9000", 1);
  WithPort number;
  EXPECT_EQ(number.parse({"run"}), -1) << number.err;
  EXPECT_EQ(number.port, 9000);
  unsetenv("OUTRIDER_PORT");
}

TEST_F(ProgramTest, HelpAndVersionEndWell) {
  Sample help;
  EXPECT_EQ(help.parse({"run", "--help"}), kExitOk);
  EXPECT_THAT(help.out, HasSubstr("--temp"));
  EXPECT_THAT(help.out, HasSubstr("OUTRIDER_TEMP"));
  Sample version;
  EXPECT_EQ(version.parse({"--version"}), kExitOk);
  EXPECT_THAT(version.out, ::testing::StartsWith("sample 0."));
}

TEST_F(ProgramTest, RarelyNeededFlagsStandInHelpAllOnly) {
  for (const auto& [flag, shown] : {std::pair("--help", false), std::pair("--help-all", true)}) {
    Sample sample;
    sample.run->add_option("--patience", sample.seed, "Of saints")
        ->group(std::string("Virtues") + kRarelyNeeded);
    EXPECT_EQ(sample.parse({"run", flag}), kExitOk);
    EXPECT_THAT(sample.out, HasSubstr("--temp"));
    EXPECT_EQ(sample.out.find("--patience") != std::string::npos, shown) << sample.out;
    EXPECT_EQ(sample.out.find("Virtues") != std::string::npos, shown) << sample.out;
  }
}

TEST_F(ProgramTest, FinishTellsUsageFromRuntimeFailures) {
  Sample sample;
  EXPECT_EQ(sample.program.finish({}), kExitOk);
  EXPECT_EQ(sample.program.finish(unavailable("gone")), kExitRuntime);
  EXPECT_EQ(sample.program.finish(invalid_argument("--kernel")), kExitUsage);
}

// Packages are made where no flag that must be given is given.
TEST_F(ProgramTest, CompletionAndManPageArePrintedWithoutAnyOtherFlag) {
  Sample sample;
  EXPECT_EQ(sample.parse({"--print-completion", "bash"}), kExitOk);
  EXPECT_THAT(sample.out,
              HasSubstr("'run') words='-h --help --help-all -p --prompt -T --temp --seed --stop"));
  EXPECT_THAT(sample.out, HasSubstr("words='text json'"));
  EXPECT_EQ(Sample().parse({"--print-completion", "zsh"}), kExitOk);
  Sample page;
  EXPECT_EQ(page.parse({"--print-man"}), kExitOk);
  EXPECT_THAT(page.out, HasSubstr(".SH OPTIONS OF CHAT\n.TP\n\\fB\\-\\-temp\\fR"));
  Sample wrong;
  EXPECT_EQ(wrong.parse({"--print-completion", "fish"}), kExitUsage);
  EXPECT_THAT(wrong.err, HasSubstr("--print-completion bash, --print-completion zsh"));
}

}  // namespace
}  // namespace outrider
