// SPDX-License-Identifier: Apache-2.0
#include "common/engine/text/pipeline/pre_tokenizer.h"

#include <algorithm>
#include <string_view>

#include "common/engine/text/pipeline/byte_level.h"
#include "common/engine/text/pipeline/known_patterns.h"
#include "common/engine/text/pipeline/utf8.h"

namespace outrider {
namespace {

std::string_view view(const Pieces& pieces, Span span) {
  return std::string_view(pieces.text).substr(span.begin, span.end - span.begin);
}

// Joins the parts of one piece in order.
class Cutter {
 public:
  Cutter(SplitBehavior behavior, std::vector<Span>& out) : behavior_(behavior), out_(out) {}

  void start_piece() { piece_begins_ = true; }

  void add(Span part, bool is_match) {
    if (part.begin == part.end) return;
    const bool removed = behavior_ == SplitBehavior::kRemoved && is_match;
    if (!piece_begins_ && joins(is_match)) {
      out_.back().end = part.end;
    } else if (!removed) {
      out_.push_back(part);
    }
    piece_begins_ = false;
    last_is_match_ = is_match;
  }

 private:
  // Whether a part is joined to the part before it.
  bool joins(bool is_match) const {
    switch (behavior_) {
      case SplitBehavior::kRemoved:
      case SplitBehavior::kIsolated:
        return false;
      case SplitBehavior::kMergedWithPrevious:
        return is_match && !last_is_match_;
      case SplitBehavior::kMergedWithNext:
        return !is_match && last_is_match_;
      case SplitBehavior::kContiguous:
        return is_match == last_is_match_;
    }
    return false;
  }

  const SplitBehavior behavior_;
  std::vector<Span>& out_;
  bool piece_begins_ = true;
  bool last_is_match_ = false;
};

Status run(const SplitStep& step, Pieces& pieces) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<Span> matches,
                            step.pattern.find_all(pieces.text, pieces.spans));
  std::vector<Span> out;
  Cutter cutter(step.behavior, out);
  auto match = matches.begin();
  for (const Span& piece : pieces.spans) {
    cutter.start_piece();
    std::size_t done = piece.begin;
    for (; match != matches.end() && match->end <= piece.end; ++match) {
      cutter.add({done, match->begin}, step.invert);
      cutter.add(*match, !step.invert);
      done = match->end;
    }
    cutter.add({done, piece.end}, step.invert);
  }
  pieces.first_at_start = pieces.first_at_start && !out.empty() && !pieces.spans.empty() &&
                          out.front().begin == pieces.spans.front().begin;
  pieces.spans = std::move(out);
  return {};
}

// Rewrites every piece: write(piece, is_first, out) appends to `out`.
template <typename Write>
void rewrite(Pieces& pieces, const Write& write) {
  std::string text;
  text.reserve(pieces.text.size() + pieces.spans.size());
  bool is_first = true;
  for (Span& piece : pieces.spans) {
    const std::size_t begin = text.size();
    write(view(pieces, piece), is_first, text);
    piece = {begin, text.size()};
    is_first = false;
  }
  pieces.text = std::move(text);
}

Status run(const SpaceStep& step, Pieces& pieces) {
  using Prepend = SpaceStep::Prepend;
  rewrite(pieces, [&](std::string_view piece, bool is_first, std::string& out) {
    const bool wanted = step.prepend == Prepend::kAlways ||
                        (step.prepend == Prepend::kFirst && is_first && pieces.first_at_start);
    if (wanted && piece.front() != ' ' && !piece.starts_with(step.marker)) out += step.marker;
    for (const char c : piece) {
      if (c == ' ') {
        out += step.marker;
      } else {
        out += c;
      }
    }
  });
  return {};
}

Status run(const ByteCharactersStep&, Pieces& pieces) {
  rewrite(pieces, [](std::string_view piece, bool, std::string& out) {
    for (const char c : piece) append_utf8(byte_to_character(static_cast<std::uint8_t>(c)), out);
  });
  return {};
}

// "Removed" without text between the matches equals "Isolated"; and "Isolated" and "Contiguous" do
// not depend on which parts are the matches.
std::string describe_step(const SplitStep& step) {
  const bool leaves_nothing =
      std::ranges::find(kPatternsOfAllText, step.pattern.source()) != kPatternsOfAllText.end();
  const auto kind = [&]() -> std::string {
    switch (step.behavior) {
      case SplitBehavior::kRemoved:
        if (step.invert && leaves_nothing) return "isolated";
        return step.invert ? "only" : "removed";
      case SplitBehavior::kIsolated:
        return "isolated";
      case SplitBehavior::kMergedWithPrevious:
        return step.invert ? "between merged with previous" : "merged with previous";
      case SplitBehavior::kMergedWithNext:
        return step.invert ? "between merged with next" : "merged with next";
      case SplitBehavior::kContiguous:
        return "contiguous";
    }
    return {};
  };
  return "split " + kind() + " " + step.pattern.source() + "\n";
}

std::string describe_step(const SpaceStep& step) {
  if (step.marker == " " && step.prepend == SpaceStep::Prepend::kNever) return {};
  return "spaces " + step.marker + " " + std::to_string(static_cast<int>(step.prepend)) + "\n";
}

std::string describe_step(const ByteCharactersStep&) {
  return "byte characters\n";
}

}  // namespace

Result<Pieces> PreTokenizer::apply(std::string text, bool at_start) const {
  const std::size_t limit = max_step_bytes(text.size());
  Pieces pieces;
  pieces.text = std::move(text);
  pieces.first_at_start = at_start;
  if (!pieces.text.empty()) pieces.spans.push_back({0, pieces.text.size()});
  for (const PreTokenizerStep& step : steps_) {
    OUTRIDER_RETURN_IF_ERROR(
        std::visit([&](const auto& known) { return run(known, pieces); }, step));
    if (pieces.text.size() > limit) {
      return resource_exhausted("the tokenizer's pre_tokenizer makes the text too long");
    }
  }
  return pieces;
}

bool PreTokenizer::drops_text() const {
  return std::ranges::any_of(steps_, [](const PreTokenizerStep& step) {
    const auto* split = std::get_if<SplitStep>(&step);
    return split != nullptr && split->behavior == SplitBehavior::kRemoved;
  });
}

bool PreTokenizer::makes_byte_characters() const {
  bool made = false;
  for (const PreTokenizerStep& step : steps_) {
    if (std::holds_alternative<ByteCharactersStep>(step)) made = true;
    if (std::holds_alternative<SpaceStep>(step)) made = false;
  }
  return made;
}

std::string PreTokenizer::describe() const {
  std::string out;
  for (const PreTokenizerStep& step : steps_) {
    out += std::visit([](const auto& known) { return describe_step(known); }, step);
  }
  return out;
}

}  // namespace outrider
