// SPDX-License-Identifier: Apache-2.0
#include "common/text/pipeline/pre_tokenizer.h"

#include <string_view>

namespace outrider {
namespace {

void add_span(std::size_t begin, std::size_t end, std::vector<Span>& spans) {
  if (begin < end) spans.push_back({begin, end});
}

std::string_view view(const Pieces& pieces, Span span) {
  return std::string_view(pieces.text).substr(span.begin, span.end - span.begin);
}

Status run(const SplitStep& step, bool, Pieces& pieces) {
  std::vector<Span> out;
  for (const Span& piece : pieces.spans) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<Span> found,
                              step.pattern.find_all(pieces.text, piece));
    const bool keep_matches = !step.remove || step.invert;
    const bool keep_between = !step.remove || !step.invert;
    std::size_t done = piece.begin;
    for (const Span& match : found) {
      if (keep_between) add_span(done, match.begin, out);
      if (keep_matches) out.push_back(match);
      done = match.end;
    }
    if (keep_between) add_span(done, piece.end, out);
  }
  pieces.spans = std::move(out);
  return {};
}

Status run(const LeadingSpaceStep&, bool, Pieces& pieces) {
  Pieces out;
  out.text.reserve(pieces.text.size() + pieces.spans.size());
  for (const Span& piece : pieces.spans) {
    const std::size_t begin = out.text.size();
    if (pieces.text[piece.begin] != ' ') out.text += ' ';
    out.text += view(pieces, piece);
    out.spans.push_back({begin, out.text.size()});
  }
  pieces = std::move(out);
  return {};
}

// One piece with its spaces marked.
std::string mark_spaces(const MetaspaceStep& step, std::string_view piece, bool prepend) {
  std::string out;
  for (const char c : piece) {
    if (c == ' ') {
      out += step.marker;
    } else {
      out += c;
    }
  }
  return prepend && !out.starts_with(step.marker) ? step.marker + out : out;
}

Status run(const MetaspaceStep& step, bool at_start, Pieces& pieces) {
  Pieces out;
  for (const Span& piece : pieces.spans) {
    const bool prepend =
        step.prepend == MetaspaceStep::Prepend::kAlways ||
        (step.prepend == MetaspaceStep::Prepend::kFirst && at_start && piece.begin == 0);
    const std::size_t begin = out.text.size();
    out.text += mark_spaces(step, view(pieces, piece), prepend);
    std::size_t done = begin;
    if (step.split) {
      for (std::size_t at = out.text.find(step.marker, begin); at != std::string::npos;
           at = out.text.find(step.marker, at + step.marker.size())) {
        add_span(done, at, out.spans);
        done = at;
      }
    }
    add_span(done, out.text.size(), out.spans);
  }
  pieces = std::move(out);
  return {};
}

std::string describe_step(const SplitStep& step) {
  return std::string("split") + (step.invert ? " inverted" : "") +
         (step.remove ? " removed " : " ") + step.pattern.source();
}

std::string describe_step(const LeadingSpaceStep&) {
  return "leading space";
}

std::string describe_step(const MetaspaceStep& step) {
  return "metaspace " + step.marker + " " + std::to_string(static_cast<int>(step.prepend)) +
         (step.split ? " split" : "");
}

}  // namespace

Result<Pieces> PreTokenizer::apply(std::string text, bool at_start) const {
  Pieces pieces;
  pieces.text = std::move(text);
  add_span(0, pieces.text.size(), pieces.spans);
  for (const PreTokenizerStep& step : steps_) {
    OUTRIDER_RETURN_IF_ERROR(
        std::visit([&](const auto& known) { return run(known, at_start, pieces); }, step));
  }
  return pieces;
}

std::string PreTokenizer::describe() const {
  std::string out;
  for (const PreTokenizerStep& step : steps_) {
    out += std::visit([](const auto& known) { return describe_step(known); }, step) + "\n";
  }
  return out;
}

Result<SplitPattern> gpt2_split_pattern() {
  return SplitPattern::compile(
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)");
}

}  // namespace outrider
