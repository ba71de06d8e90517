// stream: streams a pack through a memory budget and compares a pass with its lower bound: reading
// the streamed layers once, and the compute of a pass with everything in memory.
//
// With --flash-bandwidth the disk is emulated, so its rate is known; a pass, its bytes and its idle
// time have bars. Without, rounds of passes take turns with an independent direct reader of the
// same bytes, because a disk's rate varies; only the rate has a bar. A pack with experts has none:
// its figures say what passes read.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bench/checks/checks.h"
#include "bench/lab/flash_bandwidth.h"
#include "common/base/clock.h"
#include "common/base/posix.h"
#include "common/engine/model/cpu/anonymous_memory.h"
#include "common/engine/model/devices/device_models.h"
#include "edge_client/flash/flash_model.h"

namespace outrider {
namespace {

constexpr std::size_t kBlock = 2 << 20;  // of the independent reader
// Reads that are in flight when a round begins or ends may count for either round.
constexpr double kMaxMiscounted = 0.02;

struct StreamOptions {
  std::string pack;
  std::uint64_t budget = 0;
  std::string bandwidth;
  std::string device = "cpu";
  std::vector<int> rows = {1, 16};
  int threads = 2;
  int passes = 5;  // in a round
  int rounds = 5;
  int readers = 4;  // threads of the independent reader
  Position context = 512;
};

// Passes of `rows` new tokens, one after the other.
class Passes final {
 public:
  Passes(Model& model, int rows) : model_(model), rows_(rows) {}

  // Seconds of each pass.
  Result<std::vector<double>> run(int count) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<KvCache> cache,
                              model_.new_cache(count * rows_ + 1));
    std::vector<double> seconds;
    Slot last = kRootSlot;
    for (int pass = 0; pass < count; ++pass) {
      std::vector<Row> rows;
      for (int i = 0; i < rows_; ++i) {
        OUTRIDER_ASSIGN_OR_RETURN(last, cache->slots().append(last));
        rows.push_back({cache.get(), last, (pass * rows_ + i) * 7919 % model_.info().vocab_size});
      }
      const TimePoint begin = SystemClock().now();
      OUTRIDER_RETURN_IF_ERROR(model_.forward(rows, out_));
      seconds.push_back(to_seconds(SystemClock().now() - begin));
    }
    return seconds;
  }

 private:
  Model& model_;
  const int rows_;
  PassOutput out_;
};

// Bytes that this process has caused to be read from disks; nothing if the kernel does not report
// it.
std::optional<std::uint64_t> disk_bytes() {
  std::ifstream io("/proc/self/io");
  std::string key;
  std::uint64_t value = 0;
  while (io >> key >> value) {
    if (key == "read_bytes:") return value;
  }
  return std::nullopt;
}

// Reads blocks of a file into `block` until none is left. Returns the sum of its bytes.
std::uint64_t read_blocks(int file, std::byte* block, std::atomic<std::uint64_t>& next,
                          std::uint64_t end) {
  std::uint64_t done = 0;
  for (std::uint64_t at = next.fetch_add(kBlock); at < end; at = next.fetch_add(kBlock)) {
    const std::size_t wanted = std::min<std::uint64_t>(kBlock, end - at);
    const ssize_t got = ::pread(file, block, wanted, static_cast<off_t>(at));
    if (got <= 0) break;
    done += static_cast<std::uint64_t>(got);
  }
  return done;
}

// Bytes per second of direct reads over the file's first `bytes`. Several reads are in flight, into
// large pages. So it measures the disk, and neither the latency of single reads nor small pages.
Result<double> plain_read_rate(const std::string& path, std::uint64_t bytes, int threads) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
  if (!file.valid()) return failed_precondition(path + ": no direct reads on this file system");
  const auto blocks = static_cast<std::int64_t>(kBlock) * threads;
  OUTRIDER_ASSIGN_OR_RETURN(
      const AnonymousMemory memory,
      AnonymousMemory::make(blocks, "the buffers of the independent reader", "fewer --readers"));
  std::atomic<std::uint64_t> next{0}, done{0};
  const TimePoint begin = SystemClock().now();
  {
    std::vector<std::jthread> readers;
    for (int i = 0; i < threads; ++i) {
      readers.emplace_back([&, block = memory.as<std::byte>() + kBlock * i] {
        done += read_blocks(file.get(), block, next, bytes);
      });
    }
  }
  return static_cast<double>(done.load()) / to_seconds(SystemClock().now() - begin);
}

struct Samples {
  std::vector<double> pass_s;   // of streamed passes
  std::vector<double> read;     // of each round: bytes streamed per pass
  std::vector<double> rate;     // of each round: bytes streamed per second
  std::vector<double> disk;     // of each round: the disk's rate, or the emulated disk's
  std::vector<double> idle;     // of each round: the share of time with no read in flight
  std::vector<double> counted;  // of each round: bytes by the kernel's count over ours, minus 1
};

Result<Samples> measure(FlashModel& flash, int rows, double bandwidth,
                        const StreamOptions& options) {
  Samples samples;
  Passes passes(flash.model(), rows);
  OUTRIDER_RETURN_IF_ERROR(passes.run(1).status());
  for (int round = 0; round < options.rounds; ++round) {
    const StreamStats before = flash.stats();
    const std::optional<std::uint64_t> disk_before = disk_bytes();
    const TimePoint begin = SystemClock().now();
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<double> seconds, passes.run(options.passes));
    const double elapsed = to_seconds(SystemClock().now() - begin);
    const StreamStats after = flash.stats();
    const auto bytes = static_cast<double>(after.bytes_read - before.bytes_read);
    samples.pass_s.insert(samples.pass_s.end(), seconds.begin(), seconds.end());
    samples.read.push_back(bytes / options.passes);
    samples.rate.push_back(bytes / elapsed);
    samples.idle.push_back(1 - to_seconds(after.reading - before.reading) / elapsed);
    const std::optional<std::uint64_t> disk_after = disk_bytes();
    if (disk_before && disk_after) {
      samples.counted.push_back(static_cast<double>(*disk_after - *disk_before) / bytes - 1);
    }
    double disk = bandwidth;
    if (disk == 0) {
      OUTRIDER_ASSIGN_OR_RETURN(
          disk, plain_read_rate(options.pack, flash.plan().streamed_bytes, options.readers));
    }
    samples.disk.push_back(disk);
  }
  return samples;
}

// The median of the pairs' ratios.
std::optional<Estimate> median_ratio(const std::vector<double>& over,
                                     const std::vector<double>& of) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < over.size(); ++i) ratios.push_back(over[i] / of[i]);
  return median(ratios);
}

// Seconds of passes with everything in memory.
Result<std::vector<double>> compute_times(FlashModel& resident, int rows,
                                          const StreamOptions& options) {
  std::vector<double> all;
  for (int round = 0; round < options.rounds; ++round) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<double> seconds,
                              Passes(resident.model(), rows).run(options.passes));
    all.insert(all.end(), seconds.begin(), seconds.end());
  }
  return all;
}

// The figures and bars of one number of rows.
void judge(int rows, const Samples& samples, const FlashModel& flash, double compute_s,
           bool emulated, CheckOutcome& outcome, std::vector<Bar>& bars) {
  const bool on_demand = flash.pack().config().experts.count > 0;
  const double streamed =
      on_demand ? median(samples.read)->value : static_cast<double>(flash.plan().streamed_bytes);
  const double disk = median(samples.disk)->value, io_s = streamed / disk;
  const bool io_bound = io_s > compute_s;
  const std::string name = std::to_string(rows) + " rows: ";
  outcome.figures[std::to_string(rows)] = {{"pass_ms", median(samples.pass_s)->value * 1e3},
                                           {"io_ms", io_s * 1e3},
                                           {"compute_ms", compute_s * 1e3},
                                           {"streamed_mb", streamed / 1e6},
                                           {"io_bound", io_bound},
                                           {"idle_share", to_json(*median(samples.idle))},
                                           {"disk_mb_s", disk / 1e6}};
  if (on_demand) {
    return outcome.mark_inconclusive(name + "experts are read when rows go to them: no bar");
  }
  if (!io_bound) {
    return outcome.mark_inconclusive(
        name + "computing takes longer than reading, so streaming is not the limit");
  }
  bars.push_back({name + "streamed over the disk's rate", *median_ratio(samples.rate, samples.disk),
                  emulated ? 0.95 : 0.90});
  if (samples.counted.size() == samples.rate.size()) {
    bars.push_back({name + "bytes by the kernel's count over ours, less 1",
                    *median(samples.counted), kMaxMiscounted, Bar::Side::kWithin});
  } else {
    outcome.mark_inconclusive(name + "/proc/self/io does not count the bytes read from disks");
  }
  if (!emulated) return;
  std::vector<double> of_best;
  for (const double seconds : samples.pass_s) of_best.push_back(seconds / io_s);
  bars.push_back({name + "pass over the longer of reading and computing", *median(of_best), 1.10,
                  Bar::Side::kAtMost});
  bars.push_back({name + "share of time without a read in flight", *median(samples.idle), 0.02,
                  Bar::Side::kAtMost});
}

Result<double> bandwidth_of(const StreamOptions& options) {
  const int most = *std::ranges::max_element(options.rows);
  if (options.passes * most + 1 > options.context) {
    return invalid_argument("-c: " + std::to_string(options.context) +
                            " positions, but a round of " + std::to_string(options.passes) +
                            " passes of " + std::to_string(most) +
                            " rows needs more. Remedy: fewer --passes, or a larger -c");
  }
  if (options.bandwidth.empty()) return 0.0;
  return parse_bandwidth(options.bandwidth);
}

Result<CheckOutcome> run_stream(const StreamOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const double bandwidth, bandwidth_of(options));
  SystemClock clock;
  FlashOptions flash_options{.threads = options.threads, .max_context = options.context};
  if (options.device != "cpu") {
    flash_options.device = streaming_device({.device = options.device, .threads = options.threads});
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<FlashModel> resident,
                            FlashModel::open(options.pack, flash_options, clock));
  flash_options.memory_budget = options.budget;
  flash_options.bandwidth = bandwidth;
  CheckOutcome outcome;
  outcome.passed = true;
  std::vector<Bar> bars;
  for (const int rows : options.rows) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<double> compute,
                              compute_times(*resident, rows, options));
    OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<FlashModel> flash,
                              FlashModel::open(options.pack, flash_options, clock));
    std::fprintf(stderr, "stream: %d rows: %s\n", rows, flash->about().c_str());
    if (flash->plan().streamed_bytes == 0) {
      outcome.mark_inconclusive("nothing is streamed: the budget holds the whole pack");
      continue;
    }
    OUTRIDER_ASSIGN_OR_RETURN(const Samples samples, measure(*flash, rows, bandwidth, options));
    judge(rows, samples, *flash, median(compute)->value, bandwidth > 0, outcome, bars);
  }
  outcome.figures["emulated_flash"] = bandwidth > 0;
  outcome.hold(bars);
  return outcome;
}

}  // namespace

void add_stream_check(CheckList& checks) {
  auto options = std::make_shared<StreamOptions>();
  CLI::App* command =
      checks.add("stream", "A pack streamed from flash against reading and computing alone",
                 [options] { return run_stream(*options); });
  command->add_option("--pack", options->pack, "Of outrider-edge pack")->required();
  command->add_option("--memory-budget", options->budget, "As in outrider-edge run")
      ->transform(CLI::AsSizeValue(true))
      ->required();
  command->add_option("--flash-bandwidth", options->bandwidth,
                      "Emulate a slower flash, such as 400MB/s [this machine's disk]");
  command->add_option("--device", options->device, "Where to compute, as in outrider-edge run")
      ->check(CLI::IsMember(kDevices));
  command->add_option("--rows", options->rows, "Rows of a pass, such as 1,16")
      ->delimiter(',')
      ->check(CLI::Range(1, 256));
  command->add_option("--threads", options->threads, "Compute threads")->check(CLI::Range(1, 256));
  command->add_option("--passes", options->passes, "Passes in a round")->check(CLI::Range(1, 1000));
  command->add_option("--rounds", options->rounds, "Rounds")->check(CLI::Range(2, 1000));
  command
      ->add_option("--readers", options->readers,
                   "Reads of 2 MiB that the independent reader has in flight")
      ->check(CLI::Range(1, 64));
  command->add_option("-c,--ctx-size", options->context, "Positions of the cache");
}

}  // namespace outrider
