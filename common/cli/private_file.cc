// SPDX-License-Identifier: Apache-2.0
#include "common/cli/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace outrider {
namespace {

constexpr off_t kMaxBytes = off_t{1} << 20;

Result<std::string> read_open_file(int fd, const std::string& path) {
  struct stat about {};
  if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
    return failed_precondition(path + ": is not a regular file");
  }
  if ((about.st_mode & S_IROTH) != 0) {
    return failed_precondition(
        path + ": everybody on this machine may read it. Remedy: chmod o-r " + path);
  }
  if (about.st_size > kMaxBytes) {
    return failed_precondition(path + ": has more than 1 MiB, too much for keys");
  }
  std::string text(static_cast<std::size_t>(about.st_size), '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t got = read(fd, text.data() + have, text.size() - have);
    if (got <= 0) break;
    have += static_cast<std::size_t>(got);
  }
  text.resize(have);
  return text;
}

}  // namespace

Result<std::string> read_private_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return not_found(path + ": " + std::strerror(errno));
  Result<std::string> text = read_open_file(fd, path);
  close(fd);
  return text;
}

Result<std::string> read_secret(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_private_file(path));
  const std::string line = text.substr(0, text.find('\n'));
  const std::size_t begin = line.find_first_not_of(" \t\r");
  if (begin == std::string::npos) return invalid_argument(path + ": its first line is empty");
  return line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
}

}  // namespace outrider
