// Files that a program writes, by one rule, so that no file of a user is lost:
//
//   - A file that this process has read is never replaced: it is an input.
//   - Another file is replaced if it is empty, as mktemp makes it, or an earlier output of the same
//     kind, or if the user asked for that (allow_replacing(), which stands behind --force).
//   - The content goes into a new file beside the old one, which takes its name when it is complete
//     and on the disk. It keeps the old file's mode and owner; a new file has the mode that the
//     umask leaves.
//   - A link is followed to the file that it names. A link that names nothing is refused.
//   - FIFOs, terminals, /dev/null and /dev/stdout are written directly by kinds of one stream.
//     Other kinds are refused there; folders, disks and sockets always are.
//
//   OUTRIDER_ASSIGN_OR_RETURN(OutputFile file, OutputFile::create(path, kReportFile));
//   OUTRIDER_RETURN_IF_ERROR(file.write(text));   // part after part
//   return file.commit();                         // without it nothing has changed
//
// Errors name the path: INVALID_ARGUMENT for what may not be written, RESOURCE_EXHAUSTED with the
// system's reason where writing fails. Thread rule: one file, one thread; functions from any.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/posix.h"
#include "common/base/status.h"

namespace outrider {

struct OutputKind {
  std::string_view name;                         // with its article, for errors: "a pack"
  bool (*is_earlier)(std::string_view content);  // sees the first kSeenBytes of a file
  bool is_stream = true;                         // false: parts are written out of their order
  bool is_state = false;                         // read and written anew by its program alone
  bool is_secret = false;                        // a new file is for its owner only
  bool is_appended = false;                      // grows in place, without commit()
};

inline constexpr std::size_t kSeenBytes = std::size_t{1} << 16;

class OutputFile final {
 public:
  // Whether create() would accept the path, without a change to any file: for commands that compute
  // for long before they write.
  static Status check(const std::string& path, const OutputKind& kind);
  static Result<OutputFile> create(const std::string& path, const OutputKind& kind);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();  // removes an unfinished file

  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view text);
  Status commit();

  int descriptor() const { return descriptor_.get(); }

 private:
  OutputFile() = default;
  Status cannot_write(int error) const;
  Status open_beside(const OutputKind& kind);

  std::string path_;     // as the user wrote it
  std::string target_;   // without links
  std::string partial_;  // the name until it is complete; empty: written directly
  UniqueFd descriptor_;
  std::optional<struct stat> replaced_;
};

// A whole file.
Status write_output(const std::string& path, const OutputKind& kind, std::string_view text);

// Files are inputs from now on. A file that this process wrote is none.
void remember_input(const std::string& path);
// The user allows this process to replace files of other kinds. Inputs and states stay refused.
void allow_replacing();

}  // namespace outrider
