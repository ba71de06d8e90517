// SPDX-License-Identifier: Apache-2.0
#ifdef OUTRIDER_HAVE_XGRAMMAR
#include "common/engine/constraint/grammar.h"

#include <compiled_grammar_impl.h>
#include <grammar_functor.h>
#include <grammar_impl.h>
#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <variant>

#include "common/base/mutex.h"
#include "common/engine/text/pipeline/utf8.h"

namespace outrider {
namespace {

// The warning of this thread's compile, above all about keywords that the grammar lacks.
thread_local std::string* warned = nullptr;

class WarningsIn final {
 public:
  explicit WarningsIn(std::string& text) { warned = &text; }
  ~WarningsIn() { warned = nullptr; }
  WarningsIn(const WarningsIn&) = delete;
  WarningsIn& operator=(const WarningsIn&) = delete;
};

}  // namespace
}  // namespace outrider

// XGrammar's log, which is a service that its user provides.
namespace xgrammar {

[[noreturn]] void LogFatalImpl(const std::string& /*file*/, int /*line*/,
                               const std::string& message) {
  throw std::runtime_error(message);
}

void LogMessageImpl(const std::string& /*file*/, int /*line*/, int level,
                    const std::string& message) {
  constexpr int kWarning = 2;
  if (level < kWarning || outrider::warned == nullptr || !outrider::warned->empty()) return;
  *outrider::warned = message;
}

}  // namespace xgrammar

namespace outrider {

using Form = nlohmann::ordered_json;

namespace {

// Keeps an answer's text UTF-8. XGrammar takes surrogates (ED A0 80 to ED BF BF) for characters,
// and in some classes overlong forms, when a vocabulary can spell them byte by byte: a reader
// replaces each of their bytes by a character of its own, and the answer leaves its form.
class WholeCharacters final {
 public:
  explicit WholeCharacters(const xgrammar::TokenizerInfo& info) : info_(info) {
    for (TokenId id = 0; id < std::ssize(pieces()); ++id) {
      const std::string& piece = pieces()[static_cast<std::size_t>(id)];
      const bool continues = !piece.empty() && (static_cast<unsigned char>(piece[0]) >> 6) == 2;
      if (continues) continuing_.push_back(id);
      if (!continues && !end_of(piece)) ill_formed_.push_back(id);
    }
  }

  // The bytes of the character that the text ends in, if it is not complete. begun: the same of
  // the text before the token.
  std::string behind(const std::string& begun, TokenId token) const {
    return end_of(begun + pieces()[static_cast<std::size_t>(token)]).value_or("");
  }

  // Takes away the tokens that do not go on with the text. The grammar allows none that continue a
  // character where none has begun, and no others where one has.
  void close(const std::string& begun, std::vector<std::uint32_t>& words) const {
    for (const TokenId id : begun.empty() ? ill_formed_ : continuing_) {
      if (!begun.empty() && end_of(begun + pieces()[static_cast<std::size_t>(id)])) continue;
      words[static_cast<std::size_t>(id) / 32] &= ~(std::uint32_t{1} << (id % 32));
    }
  }

 private:
  const std::vector<std::string>& pieces() const { return info_.GetDecodedVocab(); }

  // The text's unfinished character, at most three bytes; nothing: a character is ill-formed.
  static std::optional<std::string> end_of(const std::string& text) {
    for (std::size_t at = 0; at < text.size();) {
      const Utf8Character found = utf8_at(text, at);
      if (found.state == Utf8State::kIllFormed) return std::nullopt;
      if (found.state == Utf8State::kCutShort) return text.substr(at);
      at += found.length;
    }
    return "";
  }

  const xgrammar::TokenizerInfo info_;
  std::vector<TokenId> continuing_;  // whose first byte continues a character
  std::vector<TokenId> ill_formed_;  // of the others
};

}  // namespace

struct GrammarVocabulary::Sorted {
  xgrammar::TokenizerInfo info;
  Spelling spelling;
  WholeCharacters characters{info};
};

namespace {

using Vocabulary = std::shared_ptr<const GrammarVocabulary::Sorted>;

// A matcher at the end of the answer. It goes along a path and comes back, so that nothing is
// copied for a node.
class GrammarState final : public ConstraintState {
 public:
  GrammarState(const xgrammar::CompiledGrammar& grammar, Vocabulary vocabulary)
      : tokens_(grammar.GetTokenizerInfo().GetVocabSize()),
        vocabulary_(std::move(vocabulary)),
        matcher_(grammar) {}

  void append(std::span<const TokenId> tokens) override {
    const MutexLock lock(mu_);
    known_.clear();
    if (!left_) left_ = walk(tokens) < tokens.size();
  }

  std::shared_ptr<const AllowedTokens> allowed(std::span<const TokenId> path) override {
    const MutexLock lock(mu_);
    std::shared_ptr<const AllowedTokens>& known = known_[{path.begin(), path.end()}];
    if (known == nullptr) {
      known = std::make_shared<const AllowedTokens>(behind(path, &GrammarState::here));
    }
    return known;
  }

  std::vector<TokenId> forced(std::span<const TokenId> path) override {
    const MutexLock lock(mu_);
    const std::string text = behind(path, &GrammarState::only_text);
    if (text.empty() || !vocabulary_->spelling) return {};
    return vocabulary_->spelling(text);
  }

 private:
  // How many tokens of the path the form has, and where the matcher is then.
  std::size_t walk(std::span<const TokenId> path) OUTRIDER_REQUIRES(mu_) {
    for (std::size_t i = 0; i < path.size(); ++i) {
      try {
        if (!matcher_.AcceptToken(path[i])) return i;
        begun_ = vocabulary_->characters.behind(begun_, path[i]);
      } catch (const std::exception&) {
        left_ = true;
        return i;
      }
    }
    return path.size();
  }

  // Looks behind the path, and comes back; nothing where the path leaves the form.
  template <class Found>
  Found behind(std::span<const TokenId> path, Found (GrammarState::*look)())
      OUTRIDER_REQUIRES(mu_) {
    Found found;
    if (left_) return found;
    const std::string begun = begun_;
    const std::size_t steps = walk(path);
    try {
      if (steps == path.size()) found = (this->*look)();
      matcher_.Rollback(static_cast<int>(steps));
    } catch (const std::exception&) {
      left_ = true;
    }
    begun_ = begun;
    return left_ ? Found() : found;
  }

  std::string only_text() OUTRIDER_REQUIRES(mu_) { return matcher_.FindJumpForwardString(); }

  AllowedTokens here() OUTRIDER_REQUIRES(mu_) {
    AllowedTokens found;
    found.words.resize(static_cast<std::size_t>(xgrammar::GetBitmaskSize(tokens_)));
    std::int64_t shape = std::ssize(found.words);
    DLTensor mask{.data = found.words.data(),
                  .device = {kDLCPU, 0},
                  .ndim = 1,
                  .dtype = xgrammar::GetBitmaskDLType(),
                  .shape = &shape,
                  .strides = nullptr,
                  .byte_offset = 0};
    matcher_.FillNextTokenBitmask(&mask);
    found.may_end = matcher_.IsCompleted();
    // The bits behind the last token are not the grammar's.
    const auto used = static_cast<std::uint32_t>(tokens_ % 32);
    if (used != 0) found.words.back() &= (std::uint32_t{1} << used) - 1;
    vocabulary_->characters.close(begun_, found.words);
    return found;
  }

  const std::int32_t tokens_;
  const Vocabulary vocabulary_;
  Mutex mu_;
  xgrammar::GrammarMatcher matcher_ OUTRIDER_GUARDED_BY(mu_);
  std::string begun_ OUTRIDER_GUARDED_BY(mu_);  // WholeCharacters::behind() its text
  bool left_ OUTRIDER_GUARDED_BY(mu_) = false;  // the answer has left the form
  // By path, of the answer as it is now.
  std::map<std::vector<TokenId>, std::shared_ptr<const AllowedTokens>> known_
      OUTRIDER_GUARDED_BY(mu_);
};

class Grammar final : public Constraint {
 public:
  Grammar(xgrammar::CompiledGrammar grammar, Vocabulary vocabulary)
      : grammar_(std::move(grammar)), vocabulary_(std::move(vocabulary)) {}

  std::unique_ptr<ConstraintState> begin() const override {
    return std::make_unique<GrammarState>(grammar_, vocabulary_);
  }
  std::size_t size_in_bytes() const override { return grammar_.MemorySizeBytes(); }

 private:
  const xgrammar::CompiledGrammar grammar_;
  const Vocabulary vocabulary_;
};

// On one line, with one space behind each comma and colon: a model that may write white space where
// it likes may write nothing else to the end.
xgrammar::Grammar of_schema(const std::string& schema) {
  return xgrammar::Grammar::FromJSONSchema(schema, /*any_whitespace=*/false);
}

xgrammar::Grammar of_text(const std::string& text) {
  std::string rule = "root ::= \"";
  for (const char c : text) {
    if (c == '"' || c == '\\') rule += '\\';
    rule += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return xgrammar::Grammar::FromEBNF(rule + "\"\n");
}

// One of the frames, around a value of its schema, behind the trigger.
xgrammar::Grammar of_frame(const Form& frames, std::size_t trigger) {
  std::vector<xgrammar::Grammar> ways;
  for (const Form& frame : frames) {
    ways.push_back(xgrammar::Grammar::Concat(
        {of_text(frame[0].get_ref<const std::string&>().substr(trigger)),
         of_schema(frame[1].dump()), of_text(frame[2].get_ref<const std::string&>())}));
  }
  return ways.size() == 1 ? ways.front() : xgrammar::Grammar::Union(ways);
}

// A grammar that is made of others in a way that has no function: XGrammar's structural tag.
xgrammar::Grammar of_tag(const Form& format) {
  auto made = xgrammar::Grammar::FromStructuralTag(
      Form({{"type", "structural_tag"}, {"format", format}}).dump());
  if (auto* grammar = std::get_if<xgrammar::Grammar>(&made)) return *grammar;
  throw std::runtime_error("the frames cannot be joined");
}

xgrammar::Grammar of_frames(const std::string& text) {
  const Form form = Form::parse(text);
  const bool several = form.value("several", false);
  const std::string trigger = form.value("trigger", "");
  xgrammar::Grammar frames = of_frame(form["frames"], trigger.size());
  const Form rules = {{"type", "grammar"}, {"grammar", frames.ToString()}};
  if (!trigger.empty()) {
    return of_tag({{"type", "dispatch"},
                   {"rules", Form::array({Form::array({trigger, rules})})},
                   {"loop", several}});
  }
  if (several) {
    // Models write them on lines of their own.
    const Form line = {{"type", "optional"},
                       {"content", {{"type", "const_string"}, {"value", "\n"}}}};
    frames =
        of_tag({{"type", "plus"},
                {"content", {{"type", "sequence"}, {"elements", Form::array({rules, line})}}}});
  }
  if (!form.contains("instead")) return frames;
  return xgrammar::Grammar::Union({frames, of_schema(form["instead"].dump())});
}

xgrammar::Grammar grammar_of(const ConstraintSpec& spec) {
  switch (spec.kind) {
    case ConstraintKind::kRegex:
      return xgrammar::Grammar::FromRegex(spec.text);
    case ConstraintKind::kGrammar:
      return xgrammar::Grammar::FromEBNF(spec.text);
    case ConstraintKind::kFramed:
      return of_frames(spec.text);
    default:
      return of_schema(spec.text);
  }
}

// The masks of the tokens that may follow, by state.
using Masks = decltype(xgrammar::CompiledGrammar::Impl::adaptive_token_mask_cache);
using Indices = std::vector<std::int32_t>;

template <class Mask>
auto lists_of(Mask& mask) {
  return std::array{&mask.accepted_indices, &mask.rejected_indices, &mask.uncertain_indices};
}

class MaskWriter final {
 public:
  std::string bytes_of(const Masks& masks) {
    for (const auto& [state, mask] : masks) {
      put(&state, 1);
      put(&mask.store_type, 1);
      for (const Indices* list : lists_of(mask)) put_list(*list);
      const int bits = mask.accepted_bitset.Size();
      std::vector<std::uint32_t> words(
          static_cast<std::size_t>(xgrammar::DynamicBitset::GetBufferSize(bits)));
      xgrammar::DynamicBitset(bits, words.data()) = mask.accepted_bitset;
      put(&bits, 1);
      put(words.data(), words.size());
    }
    return std::move(bytes_);
  }

 private:
  template <class T>
  void put(const T* from, std::size_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(from), count * sizeof(T));
  }
  void put_list(const Indices& list) {
    const auto size = static_cast<std::int32_t>(list.size());
    put(&size, 1);
    put(list.data(), list.size());
  }

  std::string bytes_;
};

class MaskReader final {
 public:
  MaskReader(std::string_view bytes, const xgrammar::TokenizerInfo& info)
      : left_(bytes),
        vocabulary_(info.GetVocabSize()),
        indices_(static_cast<std::int32_t>(info.GetSortedDecodedVocab().size())) {}

  // Nothing: the bytes are not of this vocabulary, or not complete.
  std::optional<Masks> read() {
    Masks masks;
    while (!left_.empty()) {
      xgrammar::ParserState state;
      xgrammar::AdaptiveTokenMask mask;
      if (!take(&state, 1) || !read_mask(mask)) return std::nullopt;
      masks.emplace(state, std::move(mask));
    }
    return masks;
  }

 private:
  bool read_mask(xgrammar::AdaptiveTokenMask& mask) {
    using Store = xgrammar::AdaptiveTokenMask::StoreType;
    std::int32_t bits = 0;
    if (!take(&mask.store_type, 1) || mask.store_type < Store::kAccepted ||
        mask.store_type > Store::kAcceptedBitset) {
      return false;
    }
    for (Indices* list : lists_of(mask)) {
      if (!take_list(*list)) return false;
    }
    if (!take(&bits, 1) || (bits != 0 && bits != vocabulary_)) return false;
    std::vector<std::uint32_t> words(
        static_cast<std::size_t>(xgrammar::DynamicBitset::GetBufferSize(bits)));
    if (!take(words.data(), words.size())) return false;
    const xgrammar::DynamicBitset view(bits, words.data());
    mask.accepted_bitset = view;  // a copy
    return (mask.store_type == Store::kAcceptedBitset) == (bits != 0);
  }

  bool take_list(Indices& list) {
    std::int32_t size = 0;
    if (!take(&size, 1) || size < 0 || size > indices_) return false;
    list.resize(static_cast<std::size_t>(size));
    return take(list.data(), list.size()) &&
           std::ranges::all_of(list, [&](std::int32_t at) { return at >= 0 && at < indices_; });
  }

  template <class T>
  bool take(T* to, std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    if (left_.size() < bytes) return false;
    if (bytes > 0) std::memcpy(to, left_.data(), bytes);
    left_.remove_prefix(bytes);
    return true;
  }

  std::string_view left_;
  const std::int32_t vocabulary_;  // bits of a set of tokens
  const std::int32_t indices_;     // bound of a list's values: places in the order of texts
};

// Whether there is a mask for each state at which a token may follow, and for no other.
bool belongs_to(const Masks& masks, const xgrammar::Grammar& grammar) {
  std::size_t states = 0;
  for (std::int32_t rule = 0; rule < grammar->NumRules(); ++rule) {
    const auto& machine = grammar->per_rule_fsms[static_cast<std::size_t>(rule)]->GetFsm();
    std::unordered_set<int> reachable;
    machine.GetReachableStates(&reachable);
    for (const int at : reachable) {
      if (!machine.IsScanableState(at)) continue;
      ++states;
      const xgrammar::ParserState state(rule, grammar->GetRule(rule).body_expr_id, at,
                                        xgrammar::ParserState::kNoPrevInputPos);
      if (!masks.contains(state)) return false;
    }
  }
  return states == masks.size();
}

// Runs a step of a compile; its warning is an error.
template <class T>
Result<T> without_warning(const std::function<T()>& step) {
  std::string warning;
  const WarningsIn collected(warning);
  try {
    T made = step();
    if (warning.empty()) return made;
  } catch (const std::exception& error) {
    return invalid_argument("the form cannot be compiled: " + printable(error.what()));
  }
  return unimplemented("the form would not be enforced as it is written: " + printable(warning) +
                       ". Remedy: leave that out, or say it in another way");
}

}  // namespace

std::string no_grammars() {
  return {};
}

GrammarVocabulary::GrammarVocabulary(const std::vector<std::string>& pieces, Spelling spelling)
    : sorted_(std::make_shared<const Sorted>(
          Sorted{xgrammar::TokenizerInfo(pieces, xgrammar::VocabType::RAW, std::nullopt,
                                         std::vector<std::int32_t>()),
                 std::move(spelling)})) {}

Result<std::string> compute_masks(const ConstraintSpec& spec, const GrammarVocabulary& vocabulary) {
  return without_warning<std::string>([&] {
    xgrammar::GrammarCompiler compiler(vocabulary.sorted()->info, 1, false);
    const xgrammar::CompiledGrammar compiled = compiler.CompileGrammar(grammar_of(spec));
    // The first mask, which every answer needs.
    Grammar(compiled, vocabulary.sorted()).begin()->allowed({});
    return MaskWriter().bytes_of(compiled->adaptive_token_mask_cache);
  });
}

Result<std::shared_ptr<const Constraint>> compile_grammar(const ConstraintSpec& spec,
                                                          const GrammarVocabulary& vocabulary,
                                                          std::string_view masks) {
  const xgrammar::TokenizerInfo& info = vocabulary.sorted()->info;
  auto compiled = std::make_shared<xgrammar::CompiledGrammar::Impl>();
  compiled->tokenizer_info = info;
  OUTRIDER_ASSIGN_OR_RETURN(compiled->grammar, without_warning<xgrammar::Grammar>([&] {
                              return xgrammar::GrammarOptimizer::Apply(grammar_of(spec));
                            }));
  std::optional<Masks> read = MaskReader(masks, info).read();
  if (!read || !belongs_to(*read, compiled->grammar)) {
    return internal_error("the masks of a form's states are those of another form");
  }
  compiled->adaptive_token_mask_cache = *std::move(read);
  const xgrammar::CompiledGrammar grammar(std::move(compiled));
  return std::shared_ptr<const Constraint>(
      std::make_shared<const Grammar>(grammar, vocabulary.sorted()));
}

}  // namespace outrider

#endif  // OUTRIDER_HAVE_XGRAMMAR
