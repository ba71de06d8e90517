// The errors of programs to which the system grants little. Each test runs in a process of its own.
// SPDX-License-Identifier: Apache-2.0
#include "common/serving/cli/resources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <system_error>

#include "common/serving/cli/program.h"

namespace outrider {
namespace {

using testing::ExitedWithCode;

TEST(Resources, AreThereHere) {
  EXPECT_EQ(check_threads(kThreadsBesideCompute), Status());
  EXPECT_EQ(check_descriptors(kDescriptors), Status());
}

#ifndef OUTRIDER_SANITIZED  // a sanitizer maps more memory than that, and opens pipes to look at it
// Prints the status and ends with 0 if it is OK, else with 1.
[[noreturn]] void end_with(const Status& status) {
  std::fprintf(stderr, "%s\n", status.to_string().c_str());
  std::_Exit(status.ok() ? 0 : 1);
}

TEST(ResourcesDeathTest, TooFewDescriptorsAreNamedWithTheRemedy) {
  const auto with_few = [] {
    const rlimit few{.rlim_cur = 16, .rlim_max = 16};
    setrlimit(RLIMIT_NOFILE, &few);
    end_with(check_descriptors(kDescriptors));
  };
  EXPECT_EXIT(with_few(), ExitedWithCode(1), "may open [0-9]+ files more, and 48 .*ulimit -n");
}

// Each thread needs room for its stack.
TEST(ResourcesDeathTest, TooFewThreadsAreNamedWithTheRemedy) {
  const auto with_few = [] {
    const rlimit little{.rlim_cur = 200 << 20, .rlim_max = 200 << 20};
    setrlimit(RLIMIT_AS, &little);
    end_with(check_threads(64));
  };
  EXPECT_EXIT(with_few(), ExitedWithCode(1), "have [0-9]+ threads more, and 64 .*--threads");
}
#endif

// Nobody takes what it throws.
void run_alone(const std::function<void()>& work) noexcept {
  const Program program("sample", "");
  work();
}

TEST(ResourcesDeathTest, WhatNobodyTakesEndsAProgramWithOneSentence) {
  const auto lacks_thread = [] {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  };
  EXPECT_EXIT(run_alone(lacks_thread), ExitedWithCode(1),
              "^sample: the system refuses another thread");
  EXPECT_EXIT(run_alone([] { throw std::bad_alloc(); }), ExitedWithCode(1),
              "^sample: out of memory");
}

TEST(ResourcesDeathTest, AFileThatIsCutWhileItIsReadEndsAProgramWithOneSentence) {
  const auto reads = [] {
    const Program program("sample", "");
    std::FILE* file = std::tmpfile();
    std::fputs("bytes", file);
    std::fflush(file);
    const void* mapped = mmap(nullptr, 5, PROT_READ, MAP_PRIVATE, fileno(file), 0);
    if (ftruncate(fileno(file), 0) != 0) std::_Exit(9);
    std::_Exit(*static_cast<const volatile char*>(mapped));
  };
  EXPECT_EXIT(reads(), ExitedWithCode(1), "^sample: a file in use was cut short");
}

}  // namespace
}  // namespace outrider
