// SPDX-License-Identifier: Apache-2.0
#include "edge_client/flash/uring_reader.h"

#include <liburing.h>

#include <array>
#include <cerrno>
#include <utility>

#include "common/base/posix.h"

namespace outrider {
namespace {

// Enough to keep a disk busy with reads of a megabyte.
constexpr std::size_t kUringDepth = 8;

class UringReader final : public ExtentReader {
 public:
  static Result<std::unique_ptr<ExtentReader>> make(ExtentFile& file) {
    auto reader = std::make_unique<UringReader>();
    const int refused = io_uring_queue_init(kUringDepth, &reader->ring_, 0);
    if (refused < 0) return unavailable(errno_message(-refused));
    reader->ready_ = true;
    reader->file_ = std::move(file);
    return std::unique_ptr<ExtentReader>(std::move(reader));
  }
  UringReader() = default;
  ~UringReader() override {
    if (ready_) io_uring_queue_exit(&ring_);
  }
  UringReader(const UringReader&) = delete;
  UringReader& operator=(const UringReader&) = delete;

  std::size_t depth() const override { return kUringDepth; }
  std::string description() const override { return "io_uring, " + file_.description(); }

  void submit(const ReadRequest& request) override {
    for (Read& read : reads_) {
      if (read.active) continue;
      read = {.request = request, .done = 0, .active = true, .direct = false};
      send(read);
      return;
    }
    OUTRIDER_CHECK(false);  // more than depth()
  }

  ReadResult wait() override {
    while (true) {
      io_uring_cqe* completion = nullptr;
      const int failed = io_uring_wait_cqe(&ring_, &completion);
      if (failed == -EINTR) continue;
      OUTRIDER_CHECK(failed == 0);  // only a broken ring fails
      Read& read = *static_cast<Read*>(io_uring_cqe_get_data(completion));
      const std::int64_t result = completion->res;
      io_uring_cqe_seen(&ring_, completion);
      if (result == -EINTR || result == -EAGAIN || file_.goes_on_buffered(read.direct, result)) {
        send(read);
        continue;
      }
      if (result > 0) {
        read.done += static_cast<std::size_t>(result);
        if (read.done < read.request.buffer.size()) {
          send(read);  // the rest of a short read
          continue;
        }
      }
      read.active = false;
      if (result > 0) return {read.request.tag, {}};
      return {read.request.tag,
              file_.failure(read.request.offset, read.request.buffer.size(), result)};
    }
  }

 private:
  struct Read {
    ReadRequest request;
    std::size_t done = 0;
    bool active = false;
    bool direct = false;  // as it was sent last
  };

  void send(Read& read) {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    OUTRIDER_CHECK(entry != nullptr);  // the ring has a place for each of reads_
    read.direct = file_.direct;
    const std::span<std::byte> left = read.request.buffer.subspan(read.done);
    io_uring_prep_read(entry, file_.descriptor.get(), left.data(),
                       static_cast<unsigned>(left.size()), read.request.offset + read.done);
    io_uring_sqe_set_data(entry, &read);
    io_uring_submit(&ring_);
  }

  io_uring ring_{};
  bool ready_ = false;
  ExtentFile file_;
  std::array<Read, kUringDepth> reads_;
};

}  // namespace

Result<std::unique_ptr<ExtentReader>> make_uring_reader(ExtentFile& file) {
  return UringReader::make(file);
}

}  // namespace outrider
