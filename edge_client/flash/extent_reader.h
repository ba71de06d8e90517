// Reads parts of one file from its disk, several at a time, past the system's page cache where that
// is possible: what a pass streams is larger than memory, and caching it would only push out what
// is needed.
//
// io_uring where the kernel and the container allow it, else plain reads one after another;
// O_DIRECT where the file system allows it, on opening and on reading. Which of them it is, and
// why, description() says.
//
//   auto reader = *open_extent_reader(path, {});
//   reader->submit({.offset = 4096, .buffer = buffer, .tag = 7});     // up to depth() at a time
//   ReadResult done = reader->wait();                                 // done.tag == 7
//
// Thread rule: one thread. Ownership: buffers are the caller's, and stay until their read was
// waited for; the destructor waits for none. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/base/status.h"

namespace outrider {

// Offset, size and address of a direct read are multiples of this.
inline constexpr std::uint64_t kDirectAlignment = 4096;

struct ReadRequest {
  std::uint64_t offset = 0;
  std::span<std::byte> buffer;
  std::uint64_t tag = 0;
};

struct ReadResult {
  std::uint64_t tag = 0;
  Status status;  // DATA_LOSS naming file and offset: an I/O error, or the file has become shorter
};

class ExtentReader {
 public:
  virtual ~ExtentReader() = default;
  virtual std::size_t depth() const = 0;
  virtual void submit(const ReadRequest& request) = 0;
  // The next read that is done. At least one was submitted and not yet waited for.
  virtual ReadResult wait() = 0;
  // "io_uring, direct", "pread, buffered (io_uring: Operation not permitted)".
  virtual std::string description() const = 0;
};

struct ExtentReaderOptions {
  bool uring = true;   // try it
  bool direct = true;  // try it
};

// Errors: NOT_FOUND, INVALID_ARGUMENT with the system's words.
Result<std::unique_ptr<ExtentReader>> open_extent_reader(const std::string& path,
                                                         const ExtentReaderOptions& options);

}  // namespace outrider
