// Refusals by kernel, container or file system cost speed and are reported: no read fails for them.
// SPDX-License-Identifier: Apache-2.0
#include "edge_client/flash/extent_reader.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "common/engine/model/cpu/anonymous_memory.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace {
// A file system that opens a file for direct reads, and then refuses them.
std::atomic<bool> refuses_direct_reads{false};
}  // namespace

// In place of the system's.
extern "C" ssize_t pread(int descriptor, void* buffer, size_t count, off_t offset) {
  if (refuses_direct_reads && (::fcntl(descriptor, F_GETFL) & O_DIRECT) != 0) {
    errno = EINVAL;
    return -1;
  }
  return ::syscall(SYS_pread64, descriptor, buffer, count, offset);
}

namespace outrider {
namespace {

using testing::EndsWith;

constexpr std::size_t kBlock = kDirectAlignment;

class ExtentReaderTest : public testing::Test {
 protected:
  ExtentReaderTest() {
    for (std::size_t at = 0; at < content_.size(); ++at) content_[at] = static_cast<char>(at * 7);
    directory_.write("file", content_);
  }
  ~ExtentReaderTest() override { refuses_direct_reads = false; }

  std::unique_ptr<ExtentReader> open(const ExtentReaderOptions& options) {
    auto reader = open_extent_reader(directory_.path("file"), options);
    EXPECT_TRUE(reader.ok()) << reader.status().to_string();
    return *std::move(reader);
  }

  void expect_bytes(ExtentReader& reader, std::size_t offset, std::size_t bytes) {
    const auto memory = AnonymousMemory::make(2 * kBlock, "a buffer", "");
    ASSERT_TRUE(memory.ok());
    auto* const begin = memory->as<std::byte>();
    reader.submit({.offset = offset, .buffer = {begin, bytes}, .tag = 3});
    const ReadResult read = reader.wait();
    EXPECT_TRUE(read.status.ok()) << read.status.to_string();
    EXPECT_EQ(read.tag, 3u);
    EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(begin), bytes),
              std::string_view(content_).substr(offset, bytes));
  }

  TestDirectory directory_;
  std::string content_ = std::string(3 * kBlock, 'x');
};

TEST_F(ExtentReaderTest, SaysWhatItIs) {
  EXPECT_EQ(open({.uring = false, .direct = false})->description(), "pread, buffered");
  EXPECT_EQ(open_extent_reader(directory_.path("none"), {}).status().code(), StatusCode::kNotFound);
}

TEST_F(ExtentReaderTest, AFileSystemThatOpensNoFileForDirectReads) {
  const auto reader = open_extent_reader("/proc/self/maps", {.uring = false, .direct = true});
  ASSERT_TRUE(reader.ok()) << reader.status().to_string();
  EXPECT_EQ((*reader)->description(), "pread, buffered (direct: Invalid argument)");
}

TEST_F(ExtentReaderTest, AFileSystemThatRefusesDirectReadsOfAnOpenFile) {
  refuses_direct_reads = true;
  const auto reader = open({.uring = false, .direct = true});
  EXPECT_EQ(reader->description(), "pread, buffered (direct: Invalid argument)");
  expect_bytes(*reader, kBlock, 2 * kBlock);
}

// A disk of larger blocks than ours.
TEST_F(ExtentReaderTest, ADirectReadThatIsRefusedGoesOnBuffered) {
  for (const bool uring : {true, false}) {
    const auto reader = open({.uring = uring, .direct = true});
    if (reader->description().find("buffered") != std::string::npos) GTEST_SKIP() << "no O_DIRECT";
    expect_bytes(*reader, 7, kBlock);
    expect_bytes(*reader, 2 * kBlock, kBlock);
    EXPECT_THAT(reader->description(), EndsWith("buffered (direct: Invalid argument)"));
  }
}

// Forbids io_uring as a container's profile does, for this thread alone.
void forbid_io_uring() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{.len = std::size(program), .filter = program};
  ASSERT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    GTEST_SKIP() << "no seccomp: " << std::strerror(errno);
  }
}

TEST_F(ExtentReaderTest, AContainerThatForbidsIoUring) {
  std::thread contained([this] {
    forbid_io_uring();
    if (IsSkipped() || HasFatalFailure()) return;
    const auto reader = open({.uring = true, .direct = false});
    EXPECT_EQ(reader->description(), "pread, buffered (io_uring: Operation not permitted)");
    expect_bytes(*reader, kBlock, 2 * kBlock);
  });
  contained.join();
}

}  // namespace
}  // namespace outrider
