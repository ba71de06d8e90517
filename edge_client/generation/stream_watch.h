// What the passes of one answer read and waited for, where its target is streamed.
//
// Thread rule: one thread. Ownership: the model outlives the watch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "edge_client/flash/flash_model.h"
#include "edge_client/report/answer_report.h"

namespace outrider {

class StreamWatch final {
 public:
  // flash: null if no target is streamed.
  explicit StreamWatch(const FlashModel* flash) : flash_(flash) {
    if (flash_ == nullptr) return;
    bytes_before_ = flash_->stats().bytes_read;
    times_before_ = flash_->log().times();
  }

  std::optional<StreamedRecord> since() const {
    if (flash_ == nullptr) return std::nullopt;
    const PassTimes times = flash_->log().times() - times_before_;
    if (times.passes == 0) return std::nullopt;
    return StreamedRecord{.passes = times.passes,
                          .bytes_read = flash_->stats().bytes_read - bytes_before_,
                          .length = times.length,
                          .computing = times.computing,
                          .waiting = times.waiting,
                          .reading = times.reading,
                          .disk_idle = times.length - times.reading};
  }

 private:
  const FlashModel* const flash_;
  std::uint64_t bytes_before_ = 0;
  PassTimes times_before_;
};

}  // namespace outrider
