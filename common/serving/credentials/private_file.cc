// SPDX-License-Identifier: Apache-2.0
#include "common/serving/credentials/private_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>

#include "common/base/output_file.h"
#include "common/base/posix.h"

namespace outrider {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool is_printable_ascii(char c) {
  return c >= 0x20 && c <= 0x7e;
}

Status check_mode(const struct stat& about, const std::string& path, mode_t forbidden) {
  if (!S_ISREG(about.st_mode)) return failed_precondition(path + ": is not a regular file");
  if ((about.st_mode & forbidden & S_IWOTH) != 0) {
    return failed_precondition(
        path +
        ": every user of this machine may write to it. Remedy: check that it is what you put " +
        "there, then chmod o-rw " + path);
  }
  if ((about.st_mode & forbidden) != 0) {
    return failed_precondition(
        path + ": every user of this machine may read it. Remedy: chmod o-r " + path);
  }
  return {};
}

Result<std::string> read_open_file(int fd, const std::string& path, mode_t forbidden) {
  struct stat about {};
  if (fstat(fd, &about) != 0) return unavailable(path + ": " + errno_message(errno));
  OUTRIDER_RETURN_IF_ERROR(check_mode(about, path, forbidden));
  const auto size = static_cast<std::size_t>(about.st_size);
  if (size > kMaxBytes) {
    return failed_precondition(path + ": has " + std::to_string(size) +
                               " bytes; a file of keys or certificates has at most 1 MiB");
  }
  std::string text(size, '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t got = read(fd, text.data() + have, text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return unavailable(path + ": " + errno_message(errno));
    if (got == 0) return unavailable(path + ": became shorter while it was read");
    have += static_cast<std::size_t>(got);
  }
  remember_input(path);
  return text;
}

Result<std::string> read_guarded(const std::string& path, mode_t forbidden) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.valid()) return read_open_file(fd.get(), path, forbidden);
  const int error = errno;
  if (error != EACCES) return not_found(path + ": " + errno_message(error));
  return failed_precondition(path +
                             ": this program's user may not read it. Remedy: give it to that "
                             "user's group (chgrp GROUP " +
                             path + "; chmod 640 " + path + "), or run as its owner");
}

// Describes an invalid character of a secret without showing it.
std::string about_character(char c) {
  if (c == '\0') return "a zero byte (is the file UTF-16?)";
  if (c == '\t') return "a tab";
  if (static_cast<unsigned char>(c) > 0x7e) return "no ASCII";
  return "a control character";
}

// Its callers have read it, and know its lines.
constexpr OutputKind kPrivateFile{.name = "a private file",
                                  .is_earlier = [](std::string_view) { return true; },
                                  .is_stream = false,
                                  .is_state = true,
                                  .is_secret = true};

// The group that may read a folder which is closed to other users.
std::optional<gid_t> group_of(const struct stat& folder) {
  const bool open_to_group = (folder.st_mode & S_IXGRP) != 0;
  if (!open_to_group || (folder.st_mode & S_IRWXO) != 0) return std::nullopt;
  return folder.st_gid;
}

// Call while the folder's lock is held.
Status edit_in(int folder, const std::string& path, const TextEdit& edit) {
  struct stat about {};
  const bool is_there = stat(path.c_str(), &about) == 0;
  std::string text;
  if (is_there) {
    OUTRIDER_ASSIGN_OR_RETURN(text, read_private_file(path));
  }
  OUTRIDER_ASSIGN_OR_RETURN(text, edit(text));
  if (text.size() > kMaxBytes) {
    return failed_precondition(path + ": would exceed 1 MiB, the most that is read");
  }
  OUTRIDER_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(path, kPrivateFile));
  OUTRIDER_RETURN_IF_ERROR(file.write(text));
  struct stat around {};
  if (!is_there && fstat(folder, &around) == 0) {
    const std::optional<gid_t> group = group_of(around);
    const bool given = !group || (fchown(file.descriptor(), geteuid(), *group) == 0 &&
                                  fchmod(file.descriptor(), 0640) == 0);
    if (!given) {
      return unavailable(path + ": cannot be given to its folder's group, which must read it: " +
                         errno_message(errno) + ". Remedy: run this as root");
    }
  }
  return file.commit();
}

}  // namespace

bool is_header_value(std::string_view value) {
  return std::ranges::all_of(value, is_printable_ascii);
}

Result<std::string> read_private_file(const std::string& path) {
  return read_guarded(path, S_IROTH | S_IWOTH);
}

Result<std::string> read_trusted_file(const std::string& path) {
  return read_guarded(path, S_IWOTH);
}

Result<std::string> read_secret(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_private_file(path));
  std::string_view line = text;
  if (line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  line = line.substr(0, line.find('\n'));
  const std::size_t begin = line.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) {
    return invalid_argument(path + ": its first line is empty");
  }
  line = line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
  const auto bad = std::ranges::find_if_not(line, is_printable_ascii);
  if (bad != line.end()) {
    return invalid_argument(path + ": character " + std::to_string(bad - line.begin() + 1) +
                            " of the key is " + about_character(*bad) +
                            ", but keys are printable ASCII. Remedy: write the key there again, as "
                            "plain text");
  }
  if (line.size() > kLongestSecret) {
    return invalid_argument(path + ": its first line has " + std::to_string(line.size()) +
                            " characters, but a key has at most " + std::to_string(kLongestSecret));
  }
  return std::string(line);
}

Status edit_private_file(const std::string& path, const TextEdit& edit) {
  std::error_code error;
  // Follows links: their destination is replaced.
  const std::filesystem::path file =
      std::filesystem::weakly_canonical(std::filesystem::absolute(path), error);
  if (error) return not_found(path + ": " + error.message());
  const std::string folder = file.parent_path().string();
  const UniqueFd lock(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock.valid()) return not_found(folder + ": " + errno_message(errno));
  if (flock(lock.get(), LOCK_EX) != 0) return unavailable(folder + ": " + errno_message(errno));
  return edit_in(lock.get(), file.string(), edit);
}

}  // namespace outrider
