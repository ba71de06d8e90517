// SPDX-License-Identifier: Apache-2.0
#include "common/base/files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace outrider {
namespace {

class ReadFile : public testing::Test {
 protected:
  ReadFile() : folder_(testing::TempDir() + "outrider_files_test") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
  ~ReadFile() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << bytes;
    return folder_ + "/" + name;
  }

  std::string folder_;
};

TEST_F(ReadFile, ReturnsTheBytesAsTheyAre) {
  const std::string bytes("a\0\r\n\xff", 5);
  EXPECT_EQ(*read_file(write("x", bytes), 5), bytes);
  EXPECT_EQ(*read_file(write("empty", ""), 5), "");
}

TEST_F(ReadFile, RefusesMoreThanItWasAllowed) {
  const Status status = read_file(write("x", "123456"), 5).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("6 bytes, at most 5"), std::string::npos);
}

TEST_F(ReadFile, OpensRegularFilesOnly) {
  ASSERT_EQ(mkfifo((folder_ + "/fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink(folder_ + "/loop", folder_ + "/loop");
  EXPECT_EQ(read_file(folder_ + "/fifo", 5).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(read_file(folder_ + "/loop", 5).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(read_file(folder_, 5).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(read_file("/dev/zero", 5).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(read_file(folder_ + "/absent", 5).status().code(), StatusCode::kNotFound);
}

TEST_F(ReadFile, AStreamIsReadToItsEndWhateverItIs) {
  EXPECT_EQ(*read_stream(write("x", "12345"), 5), "12345");
  EXPECT_EQ(read_stream(write("x", "123456"), 5).status().code(), StatusCode::kInvalidArgument);
  const std::string fifo = folder_ + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(fifo) << std::string(200000, 'a'); });
  EXPECT_EQ(*read_stream(fifo, 200000), std::string(200000, 'a'));
  writer.join();
  EXPECT_EQ(read_stream("/dev/zero", 100000).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(read_stream(folder_, 5).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(read_stream(folder_ + "/absent", 5).status().code(), StatusCode::kNotFound);
}

TEST_F(ReadFile, NamesTheRemedyForALfsPointer) {
  const std::string path = write("x", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
  const Status status = read_file(path, 1000).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("git lfs pull"), std::string::npos);
}

TEST(Files, TheLastNameOfAPathIsAFoldersOwn) {
  EXPECT_EQ(last_name("models/demo"), "demo");
  EXPECT_EQ(last_name("models/demo/"), "demo");
  EXPECT_EQ(last_name("models/demo/."), "demo");
  EXPECT_EQ(last_name("models/demo/../other"), "other");
  EXPECT_EQ(last_name("a/model.gguf"), "model.gguf");
  EXPECT_EQ(last_name("."), std::filesystem::current_path().filename().string());
  EXPECT_EQ(last_name(".."), std::filesystem::current_path().parent_path().filename().string());
  EXPECT_EQ(last_name("/"), "");
}

}  // namespace
}  // namespace outrider
