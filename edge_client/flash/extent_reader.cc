// SPDX-License-Identifier: Apache-2.0
#include "edge_client/flash/extent_reader.h"

#include <unistd.h>

#include <cerrno>
#include <deque>
#include <utility>

#include "common/engine/model/cpu/anonymous_memory.h"
#include "edge_client/flash/extent_file.h"
#include "edge_client/flash/uring_reader.h"

namespace outrider {
namespace {

// One read after the other, in wait().
class PlainReader final : public ExtentReader {
 public:
  PlainReader(ExtentFile file, std::string why) : file_(std::move(file)), why_(std::move(why)) {}

  std::size_t depth() const override { return 2; }
  void submit(const ReadRequest& request) override { waiting_.push_back(request); }
  std::string description() const override { return "pread, " + file_.description() + why_; }

  ReadResult wait() override {
    const ReadRequest request = waiting_.front();
    waiting_.pop_front();
    std::size_t done = 0;
    while (done < request.buffer.size()) {
      const std::span<std::byte> left = request.buffer.subspan(done);
      const ssize_t got = ::pread(file_.descriptor.get(), left.data(), left.size(),
                                  static_cast<off_t>(request.offset + done));
      const std::int64_t result = got < 0 ? -std::int64_t{errno} : got;
      if (result == -EINTR || file_.goes_on_buffered(file_.direct, result)) continue;
      if (result <= 0) {
        return {request.tag, file_.failure(request.offset, request.buffer.size(), result)};
      }
      done += static_cast<std::size_t>(got);
    }
    return {request.tag, {}};
  }

 private:
  ExtentFile file_;
  const std::string why_;
  std::deque<ReadRequest> waiting_;
};

// Reads a page, so that what is refused only then shows before it is said which reader this is.
Status try_out(ExtentReader& reader) {
  OUTRIDER_ASSIGN_OR_RETURN(const AnonymousMemory page,
                            AnonymousMemory::make(kDirectAlignment, "a page", "free memory"));
  reader.submit({.offset = 0, .buffer = {page.as<std::byte>(), kDirectAlignment}, .tag = 0});
  return reader.wait().status;
}

}  // namespace

Result<std::unique_ptr<ExtentReader>> open_extent_reader(const std::string& path,
                                                         const ExtentReaderOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(ExtentFile file, ExtentFile::open(path, options.direct));
  std::string why;
  if (options.uring) {
    Result<std::unique_ptr<ExtentReader>> reader = make_uring_reader(file);
    if (reader.ok()) {
      (void)try_out(**reader);  // what is damaged is named with its section when that is read
      return reader;
    }
    why = " (io_uring: " + reader.status().message() + ")";
  }
  auto reader = std::make_unique<PlainReader>(std::move(file), std::move(why));
  (void)try_out(*reader);
  return std::unique_ptr<ExtentReader>(std::move(reader));
}

}  // namespace outrider
