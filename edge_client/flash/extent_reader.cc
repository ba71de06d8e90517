// SPDX-License-Identifier: Apache-2.0
#include "edge_client/flash/extent_reader.h"

#include <unistd.h>

#include <cerrno>
#include <deque>
#include <utility>

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
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        return {request.tag, file_.failure(request.offset, request.buffer.size(),
                                           got < 0 ? -std::int64_t{errno} : 0)};
      }
      done += static_cast<std::size_t>(got);
    }
    return {request.tag, {}};
  }

 private:
  const ExtentFile file_;
  const std::string why_;
  std::deque<ReadRequest> waiting_;
};

}  // namespace

Result<std::unique_ptr<ExtentReader>> open_extent_reader(const std::string& path,
                                                         const ExtentReaderOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(ExtentFile file, ExtentFile::open(path, options.direct));
  std::string why;
  if (options.uring) {
    Result<std::unique_ptr<ExtentReader>> reader = make_uring_reader(file);
    if (reader.ok()) return reader;
    why = " (io_uring: " + reader.status().message() + ")";
  }
  return std::unique_ptr<ExtentReader>(
      std::make_unique<PlainReader>(std::move(file), std::move(why)));
}

}  // namespace outrider
