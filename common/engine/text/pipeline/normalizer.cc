// SPDX-License-Identifier: Apache-2.0
#include "common/engine/text/pipeline/normalizer.h"

#include <type_traits>

#include "common/engine/text/pipeline/unicode.h"

namespace outrider {
namespace {

Result<std::string> run(const UnicodeFormStep& step, const std::string& text) {
  return to_unicode_form(text, step.form);
}

Result<std::string> run(const LowercaseStep&, const std::string& text) {
  return to_lowercase(text);
}

Result<std::string> run(const StripStep& step, const std::string& text) {
  const std::size_t left = step.left ? leading_white_space(text) : 0;
  if (left == text.size()) return std::string();
  const std::size_t right = step.right ? trailing_white_space(text) : 0;
  return text.substr(left, text.size() - left - right);
}

Result<std::string> run(const CollapseSpacesStep&, const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

Result<std::string> run(const PrependStep& step, const std::string& text) {
  return text.empty() ? text : step.text + text;
}

Result<std::string> run(const ReplaceStep& step, const std::string& text) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<Span> found, step.pattern.find_all(text));
  std::string out;
  out.reserve(text.size());
  std::size_t done = 0;
  for (const Span& match : found) {
    if (out.size() > max_step_bytes(text.size())) break;  // apply() refuses it
    out.append(text, done, match.begin - done).append(step.content);
    done = match.end;
  }
  return out.append(text, done, std::string::npos);
}

std::string describe_step(const UnicodeFormStep& step) {
  return "unicode form " + std::to_string(static_cast<int>(step.form));
}

std::string describe_step(const LowercaseStep&) {
  return "lowercase";
}

std::string describe_step(const StripStep& step) {
  return std::string("strip") + (step.left ? " left" : "") + (step.right ? " right" : "");
}

std::string describe_step(const CollapseSpacesStep&) {
  return "collapse spaces";
}

std::string describe_step(const PrependStep& step) {
  return "prepend " + step.text;
}

std::string describe_step(const ReplaceStep& step) {
  return "replace " + step.pattern.source() + " by " + step.content;
}

}  // namespace

Result<std::string> Normalizer::apply(std::string_view text) const {
  std::string current(text);
  for (const NormalizerStep& step : steps_) {
    OUTRIDER_ASSIGN_OR_RETURN(
        current, std::visit([&](const auto& known) { return run(known, current); }, step));
    if (current.size() > max_step_bytes(text.size())) {
      return resource_exhausted("the tokenizer's normalizer makes the text too long");
    }
  }
  return current;
}

std::size_t Normalizer::most_bytes_for_one() const {
  const auto of = [](const auto& step) -> std::size_t {
    using Step = std::decay_t<decltype(step)>;
    // A character shrinks to a third when it is decomposed (a fourth in a compatible form), and
    // what is composed then to a third again.
    if constexpr (std::is_same_v<Step, UnicodeFormStep>) return 12;
    if constexpr (std::is_same_v<Step, LowercaseStep>) return 3;
    if constexpr (std::is_same_v<Step, PrependStep>) return 1;
    if constexpr (std::is_same_v<Step, ReplaceStep>) {
      return step.pattern.source() == " " && !step.content.empty() ? 1 : 0;
    }
    return 0;
  };
  std::size_t product = 1;
  for (const NormalizerStep& step : steps_) product *= std::visit(of, step);
  return product;
}

std::string Normalizer::describe() const {
  std::string out;
  for (const NormalizerStep& step : steps_) {
    out += std::visit([](const auto& known) { return describe_step(known); }, step) + "\n";
  }
  return out;
}

}  // namespace outrider
