// The driver of fuzz targets without libFuzzer: it runs every seed, then mutations of the seeds.
//
//   fuzz_NAME [--seconds S] [--seed N] FILE_OR_FOLDER..
//
// An input that crashes the target is written to fuzz_NAME.crash in the working directory. That
// file as the only argument, with --seconds 0, repeats it. SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/files.h"
#include "tests/fuzz/driver/mutator.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace outrider {
namespace {

constexpr std::size_t kMaxSize = 1 << 16;
constexpr std::int64_t kMaxSeedSize = 1 << 24;
// An input that takes longer counts as a hang.
constexpr unsigned kMaxSecondsPerInput = 20;

// The text that the signal handler writes; set before each run.
const std::string* current_input = nullptr;
std::string crash_path;

extern "C" void on_fatal_signal(int number) {
  const int file = ::open(crash_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file >= 0 && current_input != nullptr) {
    (void)!::write(file, current_input->data(), current_input->size());
    constexpr std::string_view kText = "fuzz: the input that did this is in the .crash file\n";
    (void)!::write(STDERR_FILENO, kText.data(), kText.size());
  }
  std::signal(number, SIG_DFL);
  std::raise(number);
}

struct Options {
  double seconds = 2;
  std::uint64_t seed = 1;
  std::vector<std::string> seeds;  // contents
};

bool add_file(const std::string& path, Options& options) {
  Result<std::string> content = read_file(path, kMaxSeedSize);
  if (!content.ok()) {
    std::fprintf(stderr, "fuzz: %s\n", content.status().to_string().c_str());
    return false;
  }
  options.seeds.push_back(*std::move(content));
  return true;
}

bool add_path(const std::string& path, Options& options) {
  if (!std::filesystem::is_directory(path)) return add_file(path, options);
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());  // the same seed gives the same inputs
  return std::all_of(files.begin(), files.end(),
                     [&options](const std::string& file) { return add_file(file, options); });
}

bool read_options(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--seconds" && i + 1 < argc) {
      options.seconds = std::atof(argv[++i]);
    } else if (argument == "--seed" && i + 1 < argc) {
      options.seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (!add_path(argument, options)) {
      return false;
    }
  }
  return !options.seeds.empty();
}

void run_one(const std::string& input) {
  current_input = &input;
  ::alarm(kMaxSecondsPerInput);
  // An exact copy on the heap, so that AddressSanitizer detects reads beyond the end.
  const std::vector<std::uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

int run(int argc, char** argv) {
  Options options;
  if (!read_options(argc, argv, options)) {
    std::fprintf(stderr, "usage: %s [--seconds S] [--seed N] FILE_OR_FOLDER.. (seeds)\n", argv[0]);
    return 2;
  }
  crash_path = std::filesystem::path(argv[0]).filename().string() + ".crash";
  for (const int number : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGALRM}) {
    std::signal(number, on_fatal_signal);
  }
  for (const std::string& seed : options.seeds) run_one(seed);
  Mutator mutator(options.seed);
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(options.seconds);
  std::uint64_t runs = 0;
  while (Clock::now() < end) {
    run_one(mutator.next(options.seeds, kMaxSize));
    ++runs;
  }
  std::printf("%zu seeds, %llu mutations, seed %llu: no crash\n", options.seeds.size(),
              static_cast<unsigned long long>(runs), static_cast<unsigned long long>(options.seed));
  return 0;
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  return outrider::run(argc, argv);
}
