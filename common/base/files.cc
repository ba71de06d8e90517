// SPDX-License-Identifier: Apache-2.0
#include "common/base/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "common/base/output_file.h"
#include "common/base/posix.h"

namespace outrider {
namespace {

constexpr std::string_view kLfsPointer = "version https://git-lfs.github.com/spec/";

// A FIFO or a device would block or never end: only regular files are opened.
Status check_regular(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status found = std::filesystem::status(path, error);
  if (found.type() == std::filesystem::file_type::not_found) {
    return not_found(path + ": no such file");
  }
  if (found.type() == std::filesystem::file_type::none) {
    return invalid_argument(path + ": " + error.message());
  }
  if (!std::filesystem::is_regular_file(found)) {
    return invalid_argument(path + ": not a regular file");
  }
  return {};
}

}  // namespace

std::string last_name(const std::string& path) {
  std::error_code error;
  std::filesystem::path whole = std::filesystem::absolute(path, error).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();
  return whole.filename().string();
}

Result<std::string> read_file(const std::string& path, std::int64_t max_bytes) {
  OUTRIDER_RETURN_IF_ERROR(check_regular(path));
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return invalid_argument(path + ": " + error.message());
  if (size > static_cast<std::uintmax_t>(max_bytes)) {
    return invalid_argument(path + ": " + std::to_string(size) + " bytes, at most " +
                            std::to_string(max_bytes) + " are read");
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) return invalid_argument(path + ": cannot be opened for reading");
  remember_input(path);
  std::string bytes(static_cast<std::size_t>(size), '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(in.gcount()));
  if (bytes.starts_with(kLfsPointer)) {
    return data_loss(path + ": a Git LFS pointer, not the file itself; run: git lfs pull");
  }
  return bytes;
}

Result<std::string> read_stream(const std::string& path, std::int64_t max_bytes) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return check_regular(path);
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    const int reason = errno;
    const std::string message = path + ": " + errno_message(reason);
    return reason == ENOENT ? not_found(message) : invalid_argument(message);
  }
  remember_input(path);
  std::string bytes;
  std::array<char, 1 << 16> block{};
  while (true) {
    const ssize_t got = read(file.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return unavailable(path + ": " + errno_message(errno));
    if (got == 0) return bytes;
    bytes.append(block.data(), static_cast<std::size_t>(got));
    if (bytes.size() > static_cast<std::size_t>(max_bytes)) {
      return invalid_argument(path + ": at most " + std::to_string(max_bytes) + " bytes are read");
    }
  }
}

}  // namespace outrider
