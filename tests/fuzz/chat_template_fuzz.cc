// A chat template executed over a conversation: it ends within its bounds, and every byte of its
// output comes from the template or the user. SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "common/conversation/jinja/template.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using Json = nlohmann::ordered_json;
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto parsed = outrider::jinja::Template::parse(source);
  if (!parsed.ok()) return 0;
  static const Json kTrusted = {{"bos_token", "<s>"}, {"add_generation_prompt", true}};
  static const Json kContext = {
      {"messages",
       {{{"role", "system"}, {"content", "Be brief."}},
        {{"role", "user"}, {"content", "<think>é</think>\n x "}},
        {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {{{"id", 7}}}}}}},
      {"tools", {{{"name", "f"}, {"parameters", {{"x", 1.5}, {"y", {1, 2}}}}}}}};
  const auto rendered = parsed->render(kTrusted, kContext, {.now = {}, .max_steps = 20'000});
  if (rendered.ok() && rendered->is_template.size() != rendered->text.size()) std::abort();
  return 0;
}
