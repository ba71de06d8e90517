// The times of a streamed target's passes: sums of all passes, and each part of each pass while
// somebody wants to see them.
//
//   pass:   waits_for(3) computes(3) waits_for(4) computes(4) .. end_pass()
//   disk:   has_read(5)                                   a section is whole
//
// Thread rule: any thread; the pass's calls come from one, in their order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace outrider {

// The times of passes that are over. A pass reads while it computes, so these are no parts of one
// whole: length = computing + waiting, and length = reading + the time in which the disk had
// nothing to do.
struct StreamedTimes {
  std::uint64_t passes = 0;
  Duration length{};
  Duration computing{};
  Duration waiting{};  // for what was not read yet
  Duration reading{};  // with reads in flight

  friend StreamedTimes operator-(const StreamedTimes& after, const StreamedTimes& before) {
    return {after.passes - before.passes, after.length - before.length,
            after.computing - before.computing, after.waiting - before.waiting,
            after.reading - before.reading};
  }
};

struct StreamSpan {
  enum class Lane : std::uint8_t { kPass, kCores, kDisk };
  Lane lane = Lane::kPass;
  std::string what;  // "layer 3", "waits for layer 4", "read layer 5"
  TimePoint begin;
  Duration length{};
};

class StreamLog final {
 public:
  // Spans past this many are dropped until the kept ones are taken.
  static constexpr std::size_t kMaxSpans = std::size_t{1} << 16;

  // Sections are numbered as the layers, with the output matrix behind the last one.
  explicit StreamLog(std::size_t num_layers) : num_layers_(num_layers) {}

  // read_so_far: for how long reads have been in flight since the stream began.
  void waits_for(std::size_t section, Duration read_so_far, TimePoint now);
  void computes(std::size_t section, Duration read_so_far, TimePoint now);
  void end_pass(Duration read_so_far, TimePoint now);
  void has_read(std::size_t section, TimePoint begin, TimePoint end);

  StreamedTimes times() const;

  // From now on spans are kept; before, none are.
  void keep_spans();
  // Those that were kept since the last call, in the order of their ends.
  std::vector<StreamSpan> take_spans();

 private:
  struct Part {
    bool computes = false;
    std::size_t section = 0;
    TimePoint begin;
  };
  struct Pass {
    TimePoint begin;
    Duration read_before{};
    Duration computing{};
    Duration waiting{};
    std::optional<Part> part = {};
  };

  void go_on(const Part& next, Duration read_so_far) OUTRIDER_REQUIRES(mu_);
  void end_part(TimePoint now) OUTRIDER_REQUIRES(mu_);
  void keep(StreamSpan span) OUTRIDER_REQUIRES(mu_);
  std::string name_of_section(std::size_t section) const;

  const std::size_t num_layers_;

  mutable Mutex mu_;
  std::optional<Pass> pass_ OUTRIDER_GUARDED_BY(mu_);  // the one under way
  StreamedTimes times_ OUTRIDER_GUARDED_BY(mu_);
  bool keeps_ OUTRIDER_GUARDED_BY(mu_) = false;
  std::vector<StreamSpan> spans_ OUTRIDER_GUARDED_BY(mu_);
};

}  // namespace outrider
