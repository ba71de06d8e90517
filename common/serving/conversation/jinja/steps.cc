// SPDX-License-Identifier: Apache-2.0
#include "common/serving/conversation/jinja/steps.h"

#include <algorithm>
#include <ctime>

#include "common/serving/conversation/jinja/value.h"

namespace outrider::jinja {
namespace {

constexpr std::size_t kBytesPerCheck = std::size_t{1} << 18;  // about 0.1 ms

}  // namespace

std::chrono::nanoseconds thread_time() {
  std::timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

Steps::Steps(std::int64_t max_steps, std::chrono::nanoseconds max_time)
    : deadline_(thread_time() + max_time),
      left_(static_cast<std::size_t>(std::min(max_steps, kUnlimited / std::int64_t{kBytesPerStep}) *
                                     std::int64_t{kBytesPerStep})) {}

void Steps::check(std::size_t bytes) {
  left_ += until_check_;
  until_check_ = 0;
  if (bytes > left_) throw Failure{resource_exhausted("the chat template takes too many steps")};
  left_ -= bytes;
  if (thread_time() > deadline_)
    throw Failure{resource_exhausted("the chat template takes too long")};
  until_check_ = std::min(left_, kBytesPerCheck);
  left_ -= until_check_;
}

Steps::Nested::Nested(Steps& steps) : steps_(steps) {
  if (++steps_.nesting_ > kMaxNestedValues) {
    --steps_.nesting_;
    throw Failure{
        resource_exhausted("the chat template compares values that are nested too deeply")};
  }
}

}  // namespace outrider::jinja
