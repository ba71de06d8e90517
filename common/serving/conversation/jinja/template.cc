// SPDX-License-Identifier: Apache-2.0
#include "common/serving/conversation/jinja/template.h"

#include <utility>

#include "common/serving/conversation/jinja/machine.h"
#include "common/serving/conversation/jinja/syntax.h"

namespace outrider::jinja {
namespace {

constexpr std::size_t kMaxSourceBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxConstantBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxValueBytes = std::size_t{128} << 20;

}  // namespace

struct Template::Parsed {
  explicit Parsed(std::chrono::nanoseconds max_time) : steps(Steps::kUnlimited, max_time) {}

  Steps steps;
  Arena constants{kMaxConstantBytes, steps};
  Syntax syntax;
};

Template::Template(std::unique_ptr<Parsed> parsed) : parsed_(std::move(parsed)) {}
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

Result<Template> Template::parse(std::string_view source, std::chrono::nanoseconds max_time) {
  if (source.size() > kMaxSourceBytes) {
    return resource_exhausted("the chat template is larger than 1 MiB");
  }
  try {
    auto parsed = std::make_unique<Parsed>(max_time);
    parsed->syntax = jinja::parse(source, {is_filter, is_test}, parsed->constants);
    return Template(std::move(parsed));
  } catch (const Failure& failure) {
    return failure.status.with_context("chat template");
  }
}

Result<Rendered> Template::render(const nlohmann::ordered_json& trusted,
                                  const nlohmann::ordered_json& context,
                                  const RenderOptions& options) const {
  try {
    Steps steps(options.max_steps, options.max_time);
    Arena arena(kMaxValueBytes, steps);
    Machine machine(arena, options.now);
    Scope globals;
    add_functions(arena, globals);
    for (const auto& [name, value] : trusted.items())
      globals.set(name, arena.from_json(value, Origin::kTemplate), steps);
    for (const auto& [name, value] : context.items())
      globals.set(name, arena.from_json(value, Origin::kUser), steps);
    Scope scope{&globals, {}};
    TextBuilder out(steps);
    machine.run(parsed_->syntax.block, scope, out);
    TextData text = out.take();
    Rendered rendered;
    rendered.is_template.assign(text.bytes.size(), text.origin == Origin::kTemplate);
    for (std::size_t i = 0; i < text.origins.size(); ++i) {
      rendered.is_template[i] = text.origins[i] == static_cast<char>(Origin::kTemplate);
    }
    rendered.text = std::move(text.bytes);
    return rendered;
  } catch (const Failure& failure) {
    return failure.status.with_context("chat template");
  }
}

}  // namespace outrider::jinja
