// llama-cpp-python's server. Its prompts are texts, which it reads as tokens anew each time, and
// its replies name pieces of text. So the text is what both sides share: this edge, which has the
// same tokenizer, knows how the server reads it, and takes what is drafted as far as it is read so.
//
//   drafted ids  -> text ->  the server's reading   a drafted token counts while both are alike
//   likeliest piece -> id     none where a piece is no whole text, as half a character or the
//                             end of the text, or does not lead clearly: then the server is asked
//                             to go on
//
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

#include "common/engine/text/pipeline/utf8.h"
#include "common/serving/telemetry/log.h"
#include "edge_client/verifiers/stock/stock_server.h"

namespace outrider {
namespace {

constexpr std::size_t kLongestPiece = 32;  // bytes; it shows a longer one as empty

// The bytes as the server shows them: those of no whole character are left out.
std::string shown(std::string_view bytes) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size();) {
    const Utf8Character character = utf8_at(bytes, at);
    if (character.state == Utf8State::kWellFormed) text += bytes.substr(at, character.length);
    at += character.length;
  }
  return text;
}

// The ids of shown pieces.
class PieceIds final {
 public:
  explicit PieceIds(const Tokenizer& tokenizer) {
    for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
      if (!tokenizer.contains(id) || tokenizer.is_special(id)) continue;
      const Result<std::string_view> bytes = tokenizer.token_bytes(id);
      if (!bytes.ok()) continue;
      std::string text = shown(*bytes);
      // The later of two tokens with the same text is the usual one: single bytes come first.
      TokenId& kept = ids_.try_emplace(text, id).first->second;
      if (kept != kAmbiguous) kept = text == *bytes && !text.empty() ? id : kAmbiguous;
    }
  }

  // Nothing: no token, or several that differ in bytes that are not shown.
  std::optional<TokenId> find(const std::string& piece) const {
    const auto found = ids_.find(piece);
    if (found == ids_.end() || found->second == kAmbiguous) return std::nullopt;
    return found->second;
  }

 private:
  static constexpr TokenId kAmbiguous = -1;
  std::unordered_map<std::string, TokenId> ids_;
};

bool begins_with(std::span<const TokenId> whole, std::span<const TokenId> begin) {
  return whole.size() >= begin.size() && std::ranges::equal(whole.first(begin.size()), begin);
}

// How many tokens the reply says it read and chose; nothing if it does not say.
struct Counts {
  std::size_t prompt = 0;
  std::size_t chosen = 0;
};

std::optional<Counts> read_counts(const Json& reply) {
  const Json* const usage = member(&reply, "usage");
  const Json* const prompt = member(usage, "prompt_tokens");
  const Json* const chosen = member(usage, "completion_tokens");
  if (prompt == nullptr || !prompt->is_number_unsigned()) return std::nullopt;
  if (chosen == nullptr || !chosen->is_number_unsigned()) return std::nullopt;
  return Counts{prompt->get<std::size_t>(), chosen->get<std::size_t>()};
}

class LlamaCppServer final : public StockServer {
 public:
  LlamaCppServer(const StockOptions& options, HttpCallerOptions http, const Tokenizer& tokenizer)
      : StockServer(options, std::move(http)), tokenizer_(tokenizer), pieces_(tokenizer) {}

  Result<StockModel> open(const std::stop_token& stop) override {
    OUTRIDER_RETURN_IF_ERROR(find_model(stop).status());
    OUTRIDER_ASSIGN_OR_RETURN(const Reading probe, read(std::string(kStockProbe)));
    const TimePoint begun = SystemClock().now();
    OUTRIDER_ASSIGN_OR_RETURN(const Echo echo, send_echo(probe, stop));
    const Duration took = SystemClock().now() - begun;
    for (std::size_t place = 1; place < probe.ids.size(); ++place) {
      OUTRIDER_RETURN_IF_ERROR(check_piece(echo, probe, place));
    }
    return StockModel{.name = model(), .probe_took = took};
  }

  Status check_prompt(std::span<const TokenId> prompt) const override {
    OUTRIDER_ASSIGN_OR_RETURN(const Reading reading, read(prompt));
    if (std::ranges::equal(reading.ids, without_prefix(prompt))) return {};
    return invalid_argument(
        name() +
        " takes a prompt as text and reads this one as other tokens, perhaps because it spells a "
        "special token. Remedy: --server-api vllm, outrider-server, or a prompt without it");
  }

  Result<StockChoices> judge(std::span<const TokenId> text, std::span<const TokenId> drafted,
                             const std::stop_token& stop) override {
    OUTRIDER_ASSIGN_OR_RETURN(const Reading before, read(text));
    note_reading(before, text);
    std::vector<TokenId> all(text.begin(), text.end());
    all.insert(all.end(), drafted.begin(), drafted.end());
    OUTRIDER_ASSIGN_OR_RETURN(const Reading whole, read(all));
    StockChoices choices;
    if (!begins_with(whole.ids, before.ids)) return choices;
    const std::span<const TokenId> read_draft = std::span(whole.ids).subspan(before.ids.size());
    const auto alike =
        static_cast<std::size_t>(std::ranges::mismatch(drafted, read_draft).in1 - drafted.begin());
    if (alike == 0) return choices;
    OUTRIDER_ASSIGN_OR_RETURN(const Echo echo, send_echo(whole, stop));
    for (std::size_t i = 0; i < std::min(read_draft.size(), drafted.size()); ++i) {
      const std::size_t place = before.ids.size() + i;
      OUTRIDER_RETURN_IF_ERROR(check_piece(echo, whole, place));
      OUTRIDER_ASSIGN_OR_RETURN(const std::optional<TokenId> chosen, likeliest(echo, whole, place));
      if (!chosen) return choices;
      choices.tokens.push_back(*chosen);
      if (i == alike || *chosen != drafted[i]) return choices;
    }
    if (alike < read_draft.size() || alike < drafted.size()) return choices;
    // The token behind them was computed in the same batch.
    OUTRIDER_ASSIGN_OR_RETURN(const Leader leader, leading(echo, whole, whole.ids.size()));
    if (!leader.is_clear) return choices;
    OUTRIDER_RETURN_IF_ERROR(add_said(whole, echo.said, echo.ended, choices));
    return choices;
  }

  Result<StockChoices> go_on(std::span<const TokenId> text, std::size_t count,
                             const std::stop_token& stop) override {
    OUTRIDER_ASSIGN_OR_RETURN(const Reading before, read(text));
    note_reading(before, text);
    OUTRIDER_ASSIGN_OR_RETURN(const Json reply,
                              post(kCompletions, request(before.text, count), stop));
    const Json* const said = member(first_choice(reply), "text");
    if (said == nullptr || !said->is_string()) return lacks("a text");
    StockChoices choices;
    OUTRIDER_RETURN_IF_ERROR(add_said(before, said->get<std::string>(), is_ended(reply), choices));
    return choices;
  }

 private:
  // A text, and how the server reads it, except for the token that it puts before each.
  struct Reading {
    std::string text;
    std::vector<TokenId> ids;
  };

  // The reply to a prompt that is repeated with log-probabilities.
  struct Echo {
    Json places;                      // per token of the list, {piece: log-probability} or null
    std::vector<std::string> pieces;  // the tokens of the list
    std::size_t late = 0;             // a place's likeliest piece stands so many entries before it
    std::string said = {};            // behind the prompt
    bool ended = false;               // and there the text ends
  };

  std::span<const TokenId> without_prefix(std::span<const TokenId> ids) const {
    const std::vector<TokenId>& prefix = tokenizer_.prefix();
    return begins_with(ids, prefix) ? ids.subspan(prefix.size()) : ids;
  }

  Result<Reading> read(std::string text) const {
    OUTRIDER_ASSIGN_OR_RETURN(
        std::vector<TokenId> ids,
        tokenizer_.encode(text, {.add_special_tokens = false, .parse_special = true}));
    return Reading{std::move(text), std::move(ids)};
  }
  Result<Reading> read(std::span<const TokenId> ids) const {
    OUTRIDER_ASSIGN_OR_RETURN(std::string text, tokenizer_.decode(without_prefix(ids), false));
    return read(std::move(text));
  }

  void note_reading(const Reading& reading, std::span<const TokenId> text) {
    if (std::ranges::equal(reading.ids, without_prefix(text))) return;
    if (std::exchange(noted_, true)) return;
    log(LogLevel::kWarning,
        "the server reads this answer as other tokens than it wrote: from here on its text may "
        "differ from the one that it writes alone",
        {{"server", name()}, {"position", static_cast<std::int64_t>(text.size())}});
  }

  static Json request(const std::string& text, std::size_t count) {
    return {{"prompt", text}, {"max_tokens", count}, {"temperature", 0}, {"repeat_penalty", 1.0}};
  }

  static bool is_ended(const Json& reply) {
    const Json* const reason = member(first_choice(reply), "finish_reason");
    return reason != nullptr && *reason == "stop";
  }

  bool is_bos(TokenId id) const { return tokenizer_.bos() == id; }

  // The server leaves its beginning-of-text token out of the list, and where a text begins without
  // one, each entry shows what is likeliest one place later (llama-cpp-python 0.3). How long the
  // list is says so; where the text ends here, as far as earlier lists said.
  Result<Echo> send_echo(const Reading& whole, const std::stop_token& stop) {
    Json body = request(whole.text, 1);
    body["echo"] = true;
    body["logprobs"] = 2;
    OUTRIDER_ASSIGN_OR_RETURN(const Json reply, post(kCompletions, std::move(body), stop));
    const Json* const choice = first_choice(reply);
    const Json* const logprobs = member(choice, "logprobs");
    const Json* const places = member(logprobs, "top_logprobs");
    auto pieces = texts_of(member(logprobs, "tokens"));
    if (!pieces || places == nullptr || !places->is_array() || places->size() != pieces->size()) {
      return lacks("log-probabilities of the prompt (echo with logprobs)");
    }
    const std::optional<Counts> counts = read_counts(reply);
    if (!counts) return lacks("the number of tokens (usage)");
    const std::size_t added = counts->prompt - whole.ids.size();
    if (counts->prompt < whole.ids.size() || added > 1) {
      return reads_otherwise("a text of " + std::to_string(whole.ids.size()) + " tokens has " +
                             std::to_string(counts->prompt) + " there");
    }
    Echo echo{.places = *places, .pieces = *std::move(pieces)};
    const bool has_bos = added == 1 || (!whole.ids.empty() && is_bos(whole.ids.front()));
    const auto unlisted = static_cast<std::size_t>(
        std::ranges::count_if(whole.ids, [this](TokenId id) { return is_bos(id); }));
    const std::size_t all = whole.ids.size() + counts->chosen - unlisted;
    if (!has_bos && counts->chosen > 0) shows_late_ = echo.pieces.size() < all;
    echo.late = !has_bos && shows_late_ ? 1 : 0;
    const std::size_t expected = all - (counts->chosen > 0 ? echo.late : 0);
    if (echo.pieces.size() != expected) {
      return lacks("a list of " + std::to_string(expected) + " tokens (logprobs.tokens has " +
                   std::to_string(echo.pieces.size()) + ")");
    }
    const Json* const said = member(choice, "text");
    if (said == nullptr || !said->is_string()) return lacks("a text");
    echo.said = said->get<std::string>();
    if (!echo.said.starts_with(whole.text)) return lacks("the prompt that it was to repeat (echo)");
    echo.said.erase(0, whole.text.size());
    echo.ended = is_ended(reply);
    return echo;
  }

  // The entry of the list for this place of the text, or for the one behind it; nothing: it has
  // none.
  std::optional<std::size_t> entry(const Reading& whole, std::size_t place) const {
    if (place < whole.ids.size() && is_bos(whole.ids[place])) return std::nullopt;
    return place -
           static_cast<std::size_t>(std::ranges::count_if(
               std::span(whole.ids).first(place), [this](TokenId id) { return is_bos(id); }));
  }

  // That the list has our token at this place.
  Status check_piece(const Echo& echo, const Reading& whole, std::size_t place) const {
    const std::optional<std::size_t> at = entry(whole, place);
    if (!at || *at >= echo.pieces.size() || tokenizer_.is_special(whole.ids[place])) return {};
    OUTRIDER_ASSIGN_OR_RETURN(const std::string_view bytes,
                              tokenizer_.token_bytes(whole.ids[place]));
    if (bytes.size() > kLongestPiece || shown(bytes) == echo.pieces[*at]) return {};
    return reads_otherwise("token " + std::to_string(place) + " of a text is " +
                           printable(echo.pieces[*at]) + " there, here " + printable(bytes));
  }

  // The likeliest piece at a place, and whether it leads clearly.
  struct Leader {
    std::string piece = {};
    bool is_clear = false;
  };

  // Errors: as judge(). Not clear where the list has no figures for the place.
  Result<Leader> leading(const Echo& echo, const Reading& whole, std::size_t place) const {
    Leader leader;
    if (place < echo.late) return leader;
    const std::optional<std::size_t> at = entry(whole, place - echo.late);
    const bool is_end =
        place == whole.ids.size() && at == echo.pieces.size();  // the text ends there
    if (!at || *at == 0 || is_end) return leader;               // the list's first has no figures
    const Json* const pieces = element(&echo.places, *at);
    if (pieces == nullptr || !pieces->is_object() || pieces->empty()) {
      return lacks("log-probabilities at place " + std::to_string(place));
    }
    constexpr double kNone = -std::numeric_limits<double>::infinity();
    double most = kNone;
    double second = kNone;
    for (const auto& [piece, logprob] : pieces->get_ref<const Json::object_t&>()) {
      if (!logprob.is_number()) {
        return lacks("a number as log-probability at place " + std::to_string(place));
      }
      const auto value = logprob.get<double>();
      second = std::max(second, std::min(value, most));
      if (value <= most) continue;
      leader.piece = piece;
      most = value;
    }
    leader.is_clear = most > kNone && !(most - second < kMinLead);
    return leader;
  }

  // The token that leads at this place; nothing where it does not lead clearly, or where its piece
  // leaves it open.
  Result<std::optional<TokenId>> likeliest(const Echo& echo, const Reading& whole,
                                           std::size_t place) const {
    OUTRIDER_ASSIGN_OR_RETURN(const Leader leader, leading(echo, whole, place));
    return leader.is_clear ? pieces_.find(leader.piece) : std::nullopt;
  }

  // Adds the tokens of what was said behind a text.
  Status add_said(const Reading& before, const std::string& said, bool ended,
                  StockChoices& choices) const {
    choices.ended = ended;
    if (said.empty()) return ended ? Status() : lacks("a token");
    OUTRIDER_ASSIGN_OR_RETURN(const Reading with, read(before.text + said));
    if (begins_with(with.ids, before.ids)) {
      const auto ids = std::span(with.ids).subspan(before.ids.size());
      choices.tokens.insert(choices.tokens.end(), ids.begin(), ids.end());
      return {};
    }
    OUTRIDER_ASSIGN_OR_RETURN(const Reading alone, read(said));
    choices.tokens.insert(choices.tokens.end(), alone.ids.begin(), alone.ids.end());
    return {};
  }

  const Tokenizer& tokenizer_;
  const PieceIds pieces_;
  bool shows_late_ = true;
  bool noted_ = false;
};

}  // namespace

std::unique_ptr<StockServer> make_llama_cpp_server(const StockOptions& options,
                                                   HttpCallerOptions http,
                                                   const Tokenizer& tokenizer) {
  return std::make_unique<LlamaCppServer>(options, std::move(http), tokenizer);
}

}  // namespace outrider
