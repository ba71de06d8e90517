// Chat templates as models ship them: the part of the Jinja language that they use, executed.
//
//   const jinja::Template chat = *jinja::Template::parse(source);
//   const jinja::Rendered prompt = *chat.render(context, {.now = now});
//
// As transformers runs them: trim_blocks, lstrip_blocks, break and continue, `generation` blocks,
// tojson of its own, raise_exception, strftime_now; lists and dictionaries cannot be changed.
// Templates come with models, so they are not trusted: a rendering is bounded in steps, memory,
// depth and output, and reaches nothing but what it is given.
//
// Thread rule: a Template is constant; render from any thread.
// Errors: INVALID_ARGUMENT where jinja2 would raise, with the line; RESOURCE_EXHAUSTED at a bound;
// parse() also UNIMPLEMENTED for what this does not know.
// SPDX-License-Identifier: Apache-2.0
#pragma once

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
  // By whom each byte is: template, or user, who may write no special token.
  std::vector<bool> is_template;
};

struct RenderOptions {
  std::tm now = {};                    // of strftime_now
  std::int64_t max_steps = 1'000'000;  // some 50 ms
};

class Template final {
 public:
  static Result<Template> parse(std::string_view source);

  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

  // `trusted` and `context` are objects whose keys become variables. Strings of `trusted`
  // (bos_token and its like) count as the template's, those of `context` as the user's.
  Result<Rendered> render(const nlohmann::ordered_json& trusted,
                          const nlohmann::ordered_json& context,
                          const RenderOptions& options) const;

 private:
  struct Parsed;
  explicit Template(std::unique_ptr<Parsed> parsed);

  std::unique_ptr<Parsed> parsed_;
};

}  // namespace outrider::jinja
