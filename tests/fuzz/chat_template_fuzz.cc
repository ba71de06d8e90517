// A chat template executed over a conversation: it ends within its bounds, above all that of its
// thread's time, and every byte of its output comes from the template or the user.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/serving/conversation/jinja/steps.h"
#include "common/serving/conversation/jinja/template.h"

namespace {

using outrider::jinja::thread_time;
using std::chrono::milliseconds;

constexpr milliseconds kMaxTime{10};
#if defined(OUTRIDER_SANITIZED)
constexpr milliseconds kMargin{3000};
#else
constexpr milliseconds kMargin{100};
#endif

// Ends the program if a deadline is over.
void check(const char* what, std::chrono::nanoseconds begin) {
  const auto used = std::chrono::duration_cast<milliseconds>(thread_time() - begin);
  if (used <= kMaxTime + kMargin) return;
  std::fprintf(stderr, "%s took %lld ms of its thread, with a deadline of %lld ms\n", what,
               static_cast<long long>(used.count()), static_cast<long long>(kMaxTime.count()));
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using Json = nlohmann::ordered_json;
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto before = thread_time();
  const auto parsed = outrider::jinja::Template::parse(source, kMaxTime);
  check("the parsing", before);
  if (!parsed.ok()) return 0;
  static const Json kTrusted = {{"bos_token", "<s>"}, {"add_generation_prompt", true}};
  static const Json kContext = {
      {"messages",
       {{{"role", "system"}, {"content", std::string(100'000, 'a') + "b"}},
        {{"role", "user"}, {"content", "<think>é</think>\n x "}},
        {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {{{"id", 7}}}}}}},
      {"tools", {{{"name", "f"}, {"parameters", {{"x", 1.5}, {"y", {1, 2}}}}}}}};
  const auto begin = thread_time();
  {
    const auto rendered = parsed->render(
        kTrusted, kContext,
        {.now = {}, .max_steps = outrider::jinja::Steps::kUnlimited, .max_time = kMaxTime});
    if (rendered.ok() && rendered->is_template.size() != rendered->text.size()) std::abort();
  }
  check("the rendering", begin);
  return 0;
}
