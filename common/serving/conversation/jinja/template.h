// Executes the chat templates of models: the part of the Jinja language that they use.
//
//   const jinja::Template chat = *jinja::Template::parse(source);
//   const jinja::Rendered prompt = *chat.render(context, {.now = now});
//
// Supported as in transformers: trim_blocks, lstrip_blocks, break and continue, `generation`
// blocks, its own tojson, raise_exception, strftime_now; lists and dictionaries cannot be modified.
// Templates come with models, so they are not trusted: a rendering is bounded in steps, time of its
// thread, memory, depth and output, and can access only its inputs. Parsing is bounded in size and
// time.
//
// Thread rule: a Template is constant; render from any thread. Errors: INVALID_ARGUMENT where
// jinja2 would raise, with the line; RESOURCE_EXHAUSTED at a bound; parse() also UNIMPLEMENTED for
// unsupported features. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace outrider::jinja {

struct Rendered {
  std::string text;
  // The origin of each byte: template, or user, whose text cannot contain a special token.
  std::vector<bool> is_template;
};

// The processor time that a parsing or a rendering may take of its thread. Steps end a rendering
// long before, except on a machine that is far slower than it should be. A sanitizer makes every
// step up to twenty times slower.
#if defined(OUTRIDER_SANITIZED)
inline constexpr std::chrono::milliseconds kMaxTime{2500};
#else
inline constexpr std::chrono::milliseconds kMaxTime{500};
#endif

struct RenderOptions {
  std::tm now = {};                  // for strftime_now
  std::int64_t max_steps = 750'000;  // about 25 ms
  std::chrono::nanoseconds max_time = kMaxTime;
};

class Template final {
 public:
  static Result<Template> parse(std::string_view source,
                                std::chrono::nanoseconds max_time = kMaxTime);

  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

  // `trusted` and `context` are objects whose keys become variables. Strings of `trusted` (such as
  // bos_token) count as the template's, those of `context` as the user's.
  Result<Rendered> render(const nlohmann::ordered_json& trusted,
                          const nlohmann::ordered_json& context,
                          const RenderOptions& options) const;

 private:
  struct Parsed;
  explicit Template(std::unique_ptr<Parsed> parsed);

  std::unique_ptr<Parsed> parsed_;
};

}  // namespace outrider::jinja
