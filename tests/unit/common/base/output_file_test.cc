// Which files a program replaces, and which file is left if it cannot write.
// SPDX-License-Identifier: Apache-2.0
#include "common/base/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <thread>
#include <vector>

#include "common/base/files.h"
#include "common/base/mapped_file.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

bool begins_as_report(std::string_view content) {
  return content.starts_with("report");
}

constexpr OutputKind kReport{.name = "a report", .is_earlier = begins_as_report};
constexpr OutputKind kPack{.name = "a pack", .is_earlier = begins_as_report, .is_stream = false};
constexpr OutputKind kState{.name = "a state", .is_earlier = begins_as_report, .is_state = true};
constexpr OutputKind kSecret{.name = "a secret", .is_earlier = begins_as_report, .is_secret = true};

class OutputFileTest : public testing::Test {
 protected:
  mode_t mode_of(const std::string& name) const {
    struct stat found {};
    EXPECT_EQ(stat(folder_.path(name).c_str(), &found), 0);
    return found.st_mode & 07777;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      found.push_back(entry.path().filename());
    }
    std::ranges::sort(found);
    return found;
  }
  Status write(const std::string& name, const OutputKind& kind = kReport) const {
    return write_output(folder_.path(name), kind, "report 2");
  }
  // The refusal, which leaves every file as it is, by check() and by create() alike.
  std::string refusal(const std::string& name, const OutputKind& kind = kReport) const {
    const std::vector<std::string> before = names();
    const Status checked = OutputFile::check(folder_.path(name), kind);
    const Status written = write(name, kind);
    EXPECT_EQ(checked, written);
    EXPECT_EQ(written.code(), StatusCode::kInvalidArgument) << written.to_string();
    EXPECT_EQ(names(), before);
    return written.message();
  }

  const TestDirectory folder_;
};

TEST_F(OutputFileTest, ANewFileHasTheModeThatTheUmaskLeaves) {
  const mode_t before = umask(027);
  ASSERT_TRUE(write("new").ok());
  ASSERT_TRUE(write("secret", kSecret).ok());
  umask(before);
  EXPECT_EQ(folder_.read("new"), "report 2");
  EXPECT_EQ(mode_of("new"), 0640u);
  EXPECT_EQ(mode_of("secret"), 0600u);
  EXPECT_THAT(names(), ElementsAre("new", "secret"));
}

TEST_F(OutputFileTest, AnEarlierOutputIsReplacedAndKeepsItsMode) {
  for (const mode_t mode : {0644u, 0600u, 0664u}) {
    folder_.write("old", "report 1");
    chmod(folder_.path("old").c_str(), mode);
    ASSERT_TRUE(write("old").ok());
    EXPECT_EQ(folder_.read("old"), "report 2");
    EXPECT_EQ(mode_of("old"), mode);
  }
}

TEST_F(OutputFileTest, AnEmptyFileAsMktempMakesItIsTaken) {
  folder_.write("empty", "");
  chmod(folder_.path("empty").c_str(), 0600);
  ASSERT_TRUE(write("empty", kPack).ok());
  EXPECT_EQ(folder_.read("empty"), "report 2");
  EXPECT_EQ(mode_of("empty"), 0600u);
}

TEST_F(OutputFileTest, AnotherFileIsRefusedUntilTheUserAllowsIt) {
  folder_.write("other", "a diary");
  EXPECT_THAT(refusal("other"), HasSubstr("exists and is not a report. Remedy: another name, or "
                                          "--force"));
  EXPECT_THAT(refusal("other", kState), HasSubstr("move it away"));
  EXPECT_EQ(folder_.read("other"), "a diary");
  // Allowed in a process of its own: it lasts.
  const pid_t child = fork();
  if (child == 0) {
    allow_replacing();
    _exit(write("other", kState).ok() ? 1 : write("other").ok() ? 0 : 2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(folder_.read("other"), "report 2");
}

TEST_F(OutputFileTest, AnInputIsNeverReplacedByWhateverNameItIsGiven) {
  const std::function<void(const std::string&)> readers[] = {
      [](const std::string& path) { EXPECT_TRUE(read_file(path, 99).ok()); },
      [](const std::string& path) { EXPECT_TRUE(read_stream(path, 99).ok()); },
      [](const std::string& path) { EXPECT_TRUE(MappedFile::open(path).ok()); }};
  for (const auto& read : readers) {
    folder_.write("input", "report 1");
    read(folder_.path("input"));
    fs::create_hard_link(folder_.path("input"), folder_.path("hard"));
    fs::create_symlink("input", folder_.path("soft"));
    for (const char* name : {"input", "hard", "soft"}) {
      EXPECT_THAT(refusal(name), HasSubstr("reads that file"));
    }
    EXPECT_EQ(folder_.read("input"), "report 1");
    for (const char* name : {"input", "hard", "soft"}) fs::remove(folder_.path(name));
  }
}

TEST_F(OutputFileTest, AFileOfItsOwnThatWasReadBackIsNoInput) {
  ASSERT_TRUE(write("own").ok());
  ASSERT_TRUE(read_file(folder_.path("own"), 99).ok());
  EXPECT_TRUE(write("own").ok());
  folder_.write("state", "report 1");
  ASSERT_TRUE(read_file(folder_.path("state"), 99).ok());
  EXPECT_TRUE(write("state", kState).ok());
}

TEST_F(OutputFileTest, ALinkIsFollowedAndStaysALink) {
  folder_.write("file", "report 1");
  fs::create_symlink("file", folder_.path("link"));
  fs::create_symlink(folder_.path("link"), folder_.path("second"));
  ASSERT_TRUE(write("second").ok());
  EXPECT_EQ(folder_.read("file"), "report 2");
  EXPECT_TRUE(fs::is_symlink(folder_.path("link")));
  EXPECT_TRUE(fs::is_symlink(folder_.path("second")));
}

TEST_F(OutputFileTest, ALinkToNothingAndOneToItselfAreRefused) {
  fs::create_symlink("nothing", folder_.path("link"));
  fs::create_symlink("loop", folder_.path("loop"));
  EXPECT_THAT(refusal("link"), HasSubstr("nothing, which does not exist"));
  EXPECT_THAT(refusal("loop"), HasSubstr("leads back to itself"));
  EXPECT_FALSE(fs::exists(folder_.path("nothing")));
}

TEST_F(OutputFileTest, AFolderAndANameInNoFolderAreRefused) {
  fs::create_directory(folder_.path("folder"));
  EXPECT_THAT(refusal("folder"), HasSubstr("is a folder. Remedy: name a file in it"));
  EXPECT_THAT(refusal("none/file"), HasSubstr("no file can be made in its folder"));
}

TEST_F(OutputFileTest, AFifoIsWrittenInOneStreamByKindsThatAreOne) {
  ASSERT_EQ(mkfifo(folder_.path("fifo").c_str(), 0600), 0);
  EXPECT_THAT(refusal("fifo", kPack), HasSubstr("is a FIFO, which cannot hold a pack"));
  std::string got;
  std::thread reader([&] { got = *read_stream(folder_.path("fifo"), 99); });
  EXPECT_TRUE(write("fifo").ok());
  reader.join();
  EXPECT_EQ(got, "report 2");
  EXPECT_TRUE(fs::is_fifo(folder_.path("fifo")));
}

TEST_F(OutputFileTest, DevicesStayDevices) {
  EXPECT_TRUE(write_output("/dev/null", kReport, "report").ok());
  EXPECT_EQ(write_output("/dev/full", kReport, "report").code(), StatusCode::kResourceExhausted);
  for (const char* device : {"/dev/null", "/dev/full"}) {
    EXPECT_THAT(write_output(device, kPack, "report").message(), HasSubstr("is a device"));
    EXPECT_TRUE(fs::is_character_file(device)) << device;
  }
  fs::create_symlink("/dev/null", folder_.path("link"));
  EXPECT_TRUE(write("link").ok());
  EXPECT_TRUE(fs::is_symlink(folder_.path("link")));
}

// The shell has opened the file behind it, which must not be replaced.
TEST_F(OutputFileTest, ADescriptorOfTheProcessIsWrittenWhereItStands) {
  const UniqueFd file(open(folder_.path("out").c_str(), O_WRONLY | O_CREAT, 0644));
  ASSERT_EQ(::write(file.get(), "before ", 7), 7);
  const std::string number = std::to_string(file.get());
  EXPECT_TRUE(write_output("/dev/fd/" + number, kReport, "report ").ok());
  EXPECT_TRUE(write_output("/proc/self/fd/" + number, kReport, "again ").ok());
  fs::create_symlink("/dev/fd/" + number, folder_.path("link"));
  EXPECT_TRUE(write_output(folder_.path("link"), kReport, "linked").ok());
  EXPECT_EQ(folder_.read("out"), "before report again linked");
  EXPECT_THAT(write_output("/dev/fd/" + number, kPack, "x").message(),
              HasSubstr("cannot hold a pack"));
}

TEST_F(OutputFileTest, AFullDiskLeavesTheOldFileAndNothingElse) {
  folder_.write("old", "report 1");
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit little = before;
  little.rlim_cur = 4;
  setrlimit(RLIMIT_FSIZE, &little);
  const Status old = write("old");
  const Status fresh = write("new");
  setrlimit(RLIMIT_FSIZE, &before);
  for (const Status& status : {old, fresh}) {
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(status.message(), HasSubstr("cannot be written"));
  }
  EXPECT_THAT(old.message(), HasSubstr("the file is unchanged"));
  EXPECT_EQ(folder_.read("old"), "report 1");
  EXPECT_THAT(names(), ElementsAre("old"));
}

TEST_F(OutputFileTest, WhatIsNotCommittedLeavesNothing) {
  folder_.write("old", "report 1");
  {
    Result<OutputFile> file = OutputFile::create(folder_.path("old"), kReport);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->write("half").ok());
    EXPECT_EQ(folder_.read("old"), "report 1");
  }
  EXPECT_THAT(names(), ElementsAre("old"));
}

// Root may do everything: another user tries.
TEST_F(OutputFileTest, AReadOnlyFileAndAFolderWithoutRightsAreRefused) {
  folder_.write("old", "report 1");
  chmod(folder_.path("old").c_str(), 0444);
  chmod(folder_.path().c_str(), 0755);
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(9);
    if (OutputFile::check(folder_.path("old"), kReport).ok()) _exit(1);
    if (write("old").ok()) _exit(2);
    if (geteuid() == 65534 && OutputFile::check(folder_.path("new"), kReport).ok()) _exit(3);
    if (geteuid() == 65534 && write("new").ok()) _exit(4);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(folder_.read("old"), "report 1");
  EXPECT_THAT(names(), ElementsAre("old"));
}

}  // namespace
}  // namespace outrider
