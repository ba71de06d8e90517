// vLLM's server: token ids go in and come out, so nothing is read twice.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "edge_client/verifiers/stock/stock_server.h"

namespace outrider {
namespace {

constexpr std::string_view kIdMark = "token_id:";  // return_tokens_as_token_ids writes it

std::optional<TokenId> read_id(std::string_view digits) {
  TokenId id = 0;
  const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), id);
  if (digits.empty() || error != std::errc() || rest != digits.data() + digits.size() || id < 0) {
    return std::nullopt;
  }
  return id;
}

// The likeliest token of one place, and whether it leads clearly:
// {"11": {"logprob": -0.1, "rank": 1}, "29": {"logprob": -2.4, "rank": 2}}.
struct Leader {
  TokenId token = 0;
  bool is_clear = false;
};

// Nothing: the place names no likeliest token.
std::optional<Leader> leading(const Json* place) {
  if (place == nullptr || !place->is_object()) return std::nullopt;
  std::optional<TokenId> token;
  double most = 0;
  double second = -std::numeric_limits<double>::infinity();
  for (const auto& [key, value] : place->items()) {
    const Json* const rank = member(&value, "rank");
    const Json* const logprob = member(&value, "logprob");
    if (rank == nullptr || !rank->is_number_integer()) continue;
    if (logprob == nullptr || !logprob->is_number()) continue;
    if (rank->get<int>() == 1) {
      token = read_id(key);
      most = logprob->get<double>();
    } else {
      second = std::max(second, logprob->get<double>());
    }
  }
  if (!token) return std::nullopt;
  return Leader{*token, !(most - second < kMinLead)};
}

class VllmServer final : public StockServer {
 public:
  VllmServer(const StockOptions& options, HttpCallerOptions http, const Tokenizer& tokenizer)
      : StockServer(options, std::move(http)), tokenizer_(tokenizer) {}

  Result<StockModel> open(const std::stop_token& stop) override {
    OUTRIDER_ASSIGN_OR_RETURN(const Json entry, find_model(stop));
    StockModel found{.name = model()};
    const Json* const context = member(&entry, "max_model_len");
    if (context != nullptr && context->is_number_integer()) {
      found.context = context->get<Position>();
    }
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> probe, read_probe(stop));
    const TimePoint begun = SystemClock().now();
    OUTRIDER_RETURN_IF_ERROR(
        judge(std::span(probe).first(1), std::span(probe).subspan(1), stop).status());
    found.probe_took = SystemClock().now() - begun;
    return found;
  }

  Result<StockChoices> judge(std::span<const TokenId> text, std::span<const TokenId> drafted,
                             const std::stop_token& stop) override {
    Json body = request(text, drafted, 1);
    body["prompt_logprobs"] = 2;
    OUTRIDER_ASSIGN_OR_RETURN(const Json reply, post(kCompletions, std::move(body), stop));
    const Json* const places = member(first_choice(reply), "prompt_logprobs");
    StockChoices choices;
    for (std::size_t i = 0; i < drafted.size(); ++i) {
      const std::size_t place = text.size() + i;
      const std::optional<Leader> leader = leading(element(places, place));
      if (!leader)
        return lacks("the log-probability of the likeliest token at place " +
                     std::to_string(place));
      if (!leader->is_clear) return choices;
      choices.tokens.push_back(leader->token);
      if (leader->token != drafted[i]) return choices;
    }
    OUTRIDER_RETURN_IF_ERROR(add_said(reply, choices));
    return choices;
  }

  Result<StockChoices> go_on(std::span<const TokenId> text, std::size_t count,
                             const std::stop_token& stop) override {
    OUTRIDER_ASSIGN_OR_RETURN(const Json reply, post(kCompletions, request(text, {}, count), stop));
    StockChoices choices;
    OUTRIDER_RETURN_IF_ERROR(add_said(reply, choices));
    return choices;
  }

 private:
  static Json request(std::span<const TokenId> text, std::span<const TokenId> drafted,
                      std::size_t count) {
    std::vector<TokenId> prompt(text.begin(), text.end());
    prompt.insert(prompt.end(), drafted.begin(), drafted.end());
    return {{"prompt", std::move(prompt)},
            {"max_tokens", count},
            {"temperature", 0},
            {"logprobs", 1},
            {"return_tokens_as_token_ids", true},
            {"add_special_tokens", false},
            {"skip_special_tokens", false}};
  }

  // Adds what the reply says behind its prompt.
  Status add_said(const Json& reply, StockChoices& choices) const {
    const Json* const choice = first_choice(reply);
    const auto texts = texts_of(member(member(choice, "logprobs"), "tokens"));
    if (!texts) return lacks("the tokens that it chose (logprobs.tokens)");
    for (const std::string& text : *texts) {
      const bool is_marked = text.starts_with(kIdMark);
      const auto id = is_marked ? read_id(std::string_view(text).substr(kIdMark.size()))
                                : std::optional<TokenId>();
      if (!id) return lacks("ids of the tokens that it chose (return_tokens_as_token_ids)");
      choices.tokens.push_back(*id);
    }
    const Json* const reason = member(choice, "finish_reason");
    choices.ended = reason != nullptr && *reason == "stop";
    if (texts->empty() && !choices.ended) return lacks("a token");
    return {};
  }

  // The tokens of kStockProbe, which the server reads as the same.
  Result<std::vector<TokenId>> read_probe(const std::stop_token& stop) {
    OUTRIDER_ASSIGN_OR_RETURN(
        std::vector<TokenId> ours,
        tokenizer_.encode(kStockProbe, {.add_special_tokens = false, .parse_special = true}));
    OUTRIDER_ASSIGN_OR_RETURN(
        const Json reply,
        post("/tokenize", {{"prompt", std::string(kStockProbe)}, {"add_special_tokens", false}},
             stop));
    const Json* const tokens = member(&reply, "tokens");
    if (tokens == nullptr) return lacks("the tokens of a text (/tokenize)");
    if (*tokens == Json(ours)) return ours;
    return reads_otherwise("a text of " + std::to_string(ours.size()) +
                           " tokens has other ids there");
  }

  const Tokenizer& tokenizer_;
};

}  // namespace

std::unique_ptr<StockServer> make_vllm_server(const StockOptions& options, HttpCallerOptions http,
                                              const Tokenizer& tokenizer) {
  return std::make_unique<VllmServer>(options, std::move(http), tokenizer);
}

}  // namespace outrider
