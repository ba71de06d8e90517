// The contents and modes of a file of keys, and how a line is added.
// SPDX-License-Identifier: Apache-2.0
#include "common/serving/credentials/private_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Status append_to_private_file(const std::string& path, const std::string& line) {
  return edit_private_file(path, [&](const std::string& text) -> Result<std::string> {
    return text + (text.empty() || text.ends_with('\n') ? "" : "\n") + line + "\n";
  });
}

class PrivateFileTest : public testing::Test {
 protected:
  void write(const std::string& text, mode_t mode = 0600) const {
    std::ofstream(path_, std::ios::binary) << text;
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
  }
  std::string text() const {
    std::ifstream in(path_, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  struct stat about() const {
    struct stat found {};
    EXPECT_EQ(stat(path_.c_str(), &found), 0);
    return found;
  }
  // The names in the folder, where a failed write could have left a file.
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      found.push_back(entry.path().filename());
    }
    return found;
  }

  const TestDirectory folder_;
  const std::string path_ = folder_.path() + "/tokens";
};

TEST_F(PrivateFileTest, ASecretIsItsLineWithoutBlanksOrAByteOrderMark) {
  for (const char* whole :
       {"or-abc", "or-abc\n", "  or-abc\t\r\n", "or-abc\nmore\xff\n", "\xEF\xBB\xBFor-abc\r\n"}) {
    write(whole);
    const Result<std::string> secret = read_secret(path_);
    ASSERT_TRUE(secret.ok()) << secret.status().to_string();
    EXPECT_EQ(*secret, "or-abc");
  }
}

// gRPC aborts the process that puts one of these bytes into a header.
TEST_F(PrivateFileTest, EveryByteThatNoHeaderMayHoldIsRefusedWithItsPlaceAndWithoutTheKey) {
  for (int byte = 0; byte < 256; ++byte) {
    if (byte == '\n') continue;
    write(std::string("or-sec") + static_cast<char>(byte) + "ret");
    const Result<std::string> secret = read_secret(path_);
    EXPECT_EQ(secret.ok(), byte >= 0x20 && byte <= 0x7e) << byte;
    EXPECT_EQ(is_header_value(std::string(1, static_cast<char>(byte))),
              byte >= 0x20 && byte <= 0x7e);
    if (secret.ok()) continue;
    EXPECT_EQ(secret.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(secret.status().message(),
                AllOf(HasSubstr(path_ + ": character 7"), HasSubstr("Remedy"),
                      Not(HasSubstr("or-sec")), Not(HasSubstr("ret\""))));
  }
  write(std::string("o\0r\0-\0", 6));
  EXPECT_THAT(read_secret(path_).status().message(), HasSubstr("UTF-16"));
}

TEST_F(PrivateFileTest, ALineThatNoKeyCouldBeIsRefused) {
  write("\n");
  EXPECT_THAT(read_secret(path_).status().message(), HasSubstr("first line is empty"));
  write(std::string(kLongestSecret, 'a'));
  EXPECT_TRUE(read_secret(path_).ok());
  write(std::string(kLongestSecret + 1, 'a'));
  EXPECT_THAT(read_secret(path_).status().message(), HasSubstr("513 characters"));
}

TEST_F(PrivateFileTest, AFileThatOthersMayReadOrWriteIsRefused) {
  for (const mode_t mode : {0600u, 0640u, 0660u, 0400u}) {
    write("a", mode);
    EXPECT_TRUE(read_private_file(path_).ok()) << mode;
    chmod(path_.c_str(), 0600);
  }
  write("a", 0604);
  EXPECT_THAT(read_private_file(path_).status().message(), HasSubstr("chmod o-r " + path_));
  EXPECT_TRUE(read_trusted_file(path_).ok());
  for (const mode_t mode : {0602u, 0606u, 0666u}) {
    write("a", mode);
    EXPECT_THAT(read_private_file(path_).status().message(), HasSubstr("chmod o-rw " + path_));
    EXPECT_THAT(read_trusted_file(path_).status().message(), HasSubstr("may write to it"));
  }
  EXPECT_THAT(read_private_file(folder_.path()).status().message(), HasSubstr("regular file"));
}

TEST_F(PrivateFileTest, ALineIsAddedBehindALineWithoutAnEnd) {
  write("bob sha256:00");
  ASSERT_EQ(append_to_private_file(path_, "alice sha256:11"), Status());
  EXPECT_EQ(text(), "bob sha256:00\nalice sha256:11\n");
  ASSERT_EQ(append_to_private_file(path_, "carol"), Status());
  EXPECT_EQ(text(), "bob sha256:00\nalice sha256:11\ncarol\n");
}

TEST_F(PrivateFileTest, AFileOfThisFolderNeedsNoPath) {
  const std::filesystem::path here = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  const Status added = append_to_private_file("new", "alice");
  std::filesystem::current_path(here);
  EXPECT_EQ(added, Status());
}

TEST_F(PrivateFileTest, TheFileKeepsItsModeAndItsOwner) {
  write("bob\n", 0640);
  const bool is_root = geteuid() == 0;
  if (is_root) {
    ASSERT_EQ(chown(path_.c_str(), 12345, 23456), 0);
  }
  ASSERT_EQ(append_to_private_file(path_, "alice"), Status());
  EXPECT_EQ(about().st_mode & 07777, 0640u);
  if (is_root) {
    EXPECT_EQ(about().st_uid, 12345u);
    EXPECT_EQ(about().st_gid, 23456u);
  }
}

// The package makes /etc/outrider this way: root:outrider 0750.
TEST_F(PrivateFileTest, ANewFileIsReadByTheGroupToWhichItsClosedFolderIsOpen) {
  ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
  ASSERT_EQ(append_to_private_file(path_, "alice"), Status());
  EXPECT_EQ(about().st_mode & 07777, 0600u) << "everybody may enter the folder";
  std::filesystem::remove(path_);
  ASSERT_EQ(chmod(folder_.path().c_str(), 0750), 0);
  const bool is_root = geteuid() == 0;
  if (is_root) {
    ASSERT_EQ(chown(folder_.path().c_str(), 0, 23456), 0);
  }
  ASSERT_EQ(append_to_private_file(path_, "alice"), Status());
  EXPECT_EQ(about().st_mode & 07777, 0640u);
  if (is_root) {
    EXPECT_EQ(about().st_gid, 23456u);
  }
}

TEST_F(PrivateFileTest, AFullDiskLeavesTheFileAsItWas) {
  const std::string before(40000, 'b');
  write(before + "\n");
  rlimit limit{}, small{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  small = {.rlim_cur = 20000, .rlim_max = limit.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = append_to_private_file(path_, "alice");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(path_), HasSubstr("the file is unchanged")));
  EXPECT_EQ(text(), before + "\n");
  EXPECT_THAT(names(), ElementsAre("tokens")) << "and leaves nothing else";
}

TEST_F(PrivateFileTest, WhatCouldNotBeReadAgainIsNotAdded) {
  write(std::string((1 << 20) - 3, 'b'));
  EXPECT_THAT(append_to_private_file(path_, "alice").message(), HasSubstr("1 MiB"));
  write("bob\n", 0646);
  EXPECT_THAT(append_to_private_file(path_, "alice").message(), HasSubstr("chmod"));
  EXPECT_EQ(text(), "bob\n");
  EXPECT_EQ(append_to_private_file(folder_.path() + "/none/tokens", "alice").code(),
            StatusCode::kNotFound);
}

// Secrets are mounted this way: the link stays, and its destination is replaced.
TEST_F(PrivateFileTest, ALinkStaysALink) {
  write("bob\n");
  const std::string link = folder_.path() + "/link";
  std::filesystem::create_symlink("tokens", link);
  ASSERT_EQ(append_to_private_file(link, "alice"), Status());
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(text(), "bob\nalice\n");
}

TEST_F(PrivateFileTest, ThoseWhoAddAtOneTimeLoseNoLine) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 10; ++n) {
        EXPECT_EQ(append_to_private_file(path_, "line"), Status());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::ranges::count(text(), '\n'), 80);
}

}  // namespace
}  // namespace outrider
