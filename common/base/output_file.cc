// SPDX-License-Identifier: Apache-2.0
#include "common/base/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <utility>

#include "common/base/mutex.h"

namespace outrider {
namespace {

namespace fs = std::filesystem;

// A file by device and inode, and when it was changed: an inode may be another file's later.
using FileId = std::pair<dev_t, ino_t>;
using ChangeTime = std::pair<std::int64_t, std::int64_t>;

FileId id_of(const struct stat& file) {
  return {file.st_dev, file.st_ino};
}
ChangeTime change_of(const struct stat& file) {
  return {file.st_mtim.tv_sec, file.st_mtim.tv_nsec};
}

// The files that this process has read and written.
class KnownFiles final {
 public:
  static KnownFiles& instance() {
    static auto* const known = new KnownFiles;  // never destroyed, as threads may still write
    return *known;
  }

  void add_input(const struct stat& file) {
    const MutexLock lock(mu_);
    const auto own = written_.find(id_of(file));
    if (own == written_.end() || own->second != change_of(file)) {
      read_[id_of(file)] = change_of(file);
    }
  }
  bool is_input(const struct stat& file) {
    const MutexLock lock(mu_);
    const auto found = read_.find(id_of(file));
    return found != read_.end() && found->second == change_of(file);
  }
  void add_written(const struct stat& file) {
    const MutexLock lock(mu_);
    read_.erase(id_of(file));
    written_[id_of(file)] = change_of(file);
  }

 private:
  Mutex mu_;
  std::map<FileId, ChangeTime> read_ OUTRIDER_GUARDED_BY(mu_);
  std::map<FileId, ChangeTime> written_ OUTRIDER_GUARDED_BY(mu_);
};

std::atomic<bool> may_replace{false};

// The number of this process's descriptor that a path such as /dev/fd/3 names.
std::optional<int> descriptor_in(const std::string& path) {
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(folder)) continue;
    int number = -1;
    const char* end = path.data() + path.size();
    const auto [rest, error] = std::from_chars(path.data() + folder.size(), end, number);
    if (error == std::errc() && rest == end) return number;
  }
  return std::nullopt;
}

// Where a path leads.
struct Location {
  std::string target;                // without links
  std::optional<int> descriptor;     // of this process, as behind /dev/stdout
  std::optional<struct stat> found;  // nothing: a new file
};

// Follows the links of a path's last part one by one: a link to a descriptor of this process has to
// be seen before the system follows it.
Result<Location> follow(const std::string& path) {
  constexpr int kMaxLinks = 40;
  Location location;
  fs::path at = path;
  for (int links = 0; links <= kMaxLinks; ++links) {
    if ((location.descriptor = descriptor_in(at))) return location;
    struct stat found {};
    if (lstat(at.c_str(), &found) != 0) {
      if (errno != ENOENT) return invalid_argument(path + ": " + errno_message(errno));
      if (links == 0) {
        location.target = at;
        return location;
      }
      return invalid_argument(path + ": is a link to " + at.string() +
                              ", which does not exist. Remedy: name that file itself, or remove "
                              "the link");
    }
    if (!S_ISLNK(found.st_mode)) {
      std::error_code error;
      location.target = fs::canonical(at, error);
      if (error) return invalid_argument(path + ": " + error.message());
      location.found = found;
      return location;
    }
    std::error_code error;
    const fs::path next = fs::read_symlink(at, error);
    if (error) return invalid_argument(path + ": " + error.message());
    at = next.is_absolute() ? next : at.parent_path() / next;
  }
  return invalid_argument(path + ": is a link that leads back to itself");
}

std::string first_bytes(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::string bytes(kSeenBytes, '\0');
  const ssize_t got = file.valid() ? read(file.get(), bytes.data(), bytes.size()) : -1;
  bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return bytes;
}

// Whether this regular file may be replaced.
Status check_replaceable(const std::string& path, const Location& location,
                         const OutputKind& kind) {
  if (!kind.is_state && KnownFiles::instance().is_input(*location.found)) {
    return invalid_argument(path +
                            ": this command reads that file, so it does not write over it. "
                            "Remedy: another name");
  }
  if (faccessat(AT_FDCWD, location.target.c_str(), W_OK, AT_EACCESS) != 0) {
    return invalid_argument(path + ": may not be written: " + errno_message(errno));
  }
  const bool is_ours =
      location.found->st_size == 0 || kind.is_earlier(first_bytes(location.target));
  if (is_ours || (may_replace && !kind.is_state)) return {};
  return invalid_argument(
      path + ": exists and is not " + std::string(kind.name) +
      ". Remedy: " + (kind.is_state ? "move it away" : "another name, or --force to replace it"));
}

Status check_location(const std::string& path, const Location& location, const OutputKind& kind) {
  const std::string remedy = ". Remedy: name a file";
  if (location.descriptor) {
    if (kind.is_stream) return {};
    return invalid_argument(path + ": cannot hold " + std::string(kind.name) +
                            ", whose parts are written out of their order" + remedy);
  }
  if (!location.found) return {};
  const mode_t mode = location.found->st_mode;
  if (S_ISREG(mode)) return check_replaceable(path, location, kind);
  if (S_ISDIR(mode)) return invalid_argument(path + ": is a folder" + remedy + " in it");
  if (S_ISBLK(mode)) return invalid_argument(path + ": is a disk" + remedy);
  if (S_ISSOCK(mode)) return invalid_argument(path + ": is a socket" + remedy);
  if (kind.is_stream) return {};
  return invalid_argument(path + ": is a " + (S_ISFIFO(mode) ? "FIFO" : "device") +
                          ", which cannot hold " + std::string(kind.name) +
                          ", whose parts are written out of their order" + remedy);
}

// Syncs the folder, which holds the file's name. Some file systems cannot sync folders (EINVAL),
// and a folder may be writable but not readable.
bool sync_folder_of(const std::string& path) {
  const std::string folder = fs::path(path).parent_path();
  const UniqueFd opened(
      open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return !opened.valid() || fsync(opened.get()) == 0 || errno == EINVAL;
}

// Gives a new file the owner and the mode of the one that it will replace. Only a secret's owner
// must stay: a file that a group shares becomes its last writer's.
bool take_after(int descriptor, const struct stat& old, bool is_secret) {
  const bool has_owner = fchown(descriptor, old.st_uid, old.st_gid) == 0;
  if (!has_owner && is_secret) return false;
  if (!has_owner) [[maybe_unused]]
    const int kept = fchown(descriptor, -1, old.st_gid);
  return fchmod(descriptor, old.st_mode & 0777) == 0;
}

}  // namespace

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      partial_(std::exchange(other.partial_, {})),
      descriptor_(std::move(other.descriptor_)),
      replaced_(other.replaced_) {}

OutputFile::~OutputFile() {
  if (!partial_.empty()) unlink(partial_.c_str());
}

Status OutputFile::cannot_write(int error) const {
  return resource_exhausted(path_ + ": cannot be written: " + errno_message(error) +
                            (replaced_ ? "; the file is unchanged" : ""));
}

Status OutputFile::check(const std::string& path, const OutputKind& kind) {
  OUTRIDER_ASSIGN_OR_RETURN(const Location location, follow(path));
  OUTRIDER_RETURN_IF_ERROR(check_location(path, location, kind));
  const bool is_in_place = location.found && !S_ISREG(location.found->st_mode);
  if (location.descriptor || is_in_place || kind.is_appended) return {};
  const std::string folder = fs::path(location.target).parent_path();
  if (faccessat(AT_FDCWD, folder.empty() ? "." : folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0) {
    return {};
  }
  return invalid_argument(path + ": no file can be made in its folder: " + errno_message(errno));
}

Result<OutputFile> OutputFile::create(const std::string& path, const OutputKind& kind) {
  OUTRIDER_ASSIGN_OR_RETURN(Location location, follow(path));
  OUTRIDER_RETURN_IF_ERROR(check_location(path, location, kind));
  OutputFile file;
  file.path_ = path;
  file.target_ = std::move(location.target);
  if (location.found && S_ISREG(location.found->st_mode)) file.replaced_ = location.found;
  if (location.descriptor) {
    file.descriptor_ = UniqueFd(fcntl(*location.descriptor, F_DUPFD_CLOEXEC, 0));
  } else if (location.found && !file.replaced_) {
    file.descriptor_ = UniqueFd(open(file.target_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  } else {
    OUTRIDER_RETURN_IF_ERROR(file.open_beside(kind));
  }
  if (!file.descriptor_.valid()) return file.cannot_write(errno);
  return file;
}

Status OutputFile::open_beside(const OutputKind& kind) {
  constexpr int kAttempts = 100;  // names that other processes may have taken
  const mode_t mode = replaced_ || kind.is_secret ? 0600 : 0666;
  for (int i = 0; i < kAttempts && !descriptor_.valid(); ++i) {
    partial_ = target_ + ".partial-" + std::to_string(getpid()) + "-" + std::to_string(i);
    descriptor_ = UniqueFd(open(partial_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode));
    if (!descriptor_.valid() && errno != EEXIST) break;
  }
  if (!descriptor_.valid()) {
    const int why = errno;
    partial_.clear();  // it is another process's
    return invalid_argument(path_ + ": no file can be made in its folder: " + errno_message(why));
  }
  if (!replaced_ || take_after(descriptor_.get(), *replaced_, kind.is_secret)) return {};
  return invalid_argument(path_ + ": its owner and mode cannot be kept: " + errno_message(errno) +
                          ". Remedy: run this as root or as its owner");
}

Status OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return cannot_write(written < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

Status OutputFile::write(std::string_view text) {
  return write(std::as_bytes(std::span(text.data(), text.size())));
}

Status OutputFile::commit() {
  if (partial_.empty()) {  // written directly
    return close(descriptor_.release()) == 0 ? Status() : cannot_write(errno);
  }
  struct stat made {};
  if (fsync(descriptor_.get()) != 0 || fstat(descriptor_.get(), &made) != 0) {
    return cannot_write(errno);
  }
  if (std::rename(partial_.c_str(), target_.c_str()) != 0) return cannot_write(errno);
  partial_.clear();
  descriptor_.reset();
  KnownFiles::instance().add_written(made);
  return sync_folder_of(target_) ? Status() : cannot_write(errno);
}

Status write_output(const std::string& path, const OutputKind& kind, std::string_view text) {
  OUTRIDER_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(path, kind));
  OUTRIDER_RETURN_IF_ERROR(file.write(text));
  return file.commit();
}

void remember_input(const std::string& path) {
  struct stat file {};
  if (stat(path.c_str(), &file) == 0 && S_ISREG(file.st_mode)) {
    KnownFiles::instance().add_input(file);
  }
}

void allow_replacing() {
  may_replace = true;
}

}  // namespace outrider
