// A server that people already run, seen as something that chooses tokens: what its target would
// say behind a text, at temperature 0. Two kinds speak of log-probabilities of a prompt:
//
//   vllm       prompts are token ids; `prompt_logprobs` names the likeliest token at each place
//   llama-cpp  llama-cpp-python's server: prompts are texts; `echo` with `logprobs` names the
//              likeliest piece of text at each place
//
//   const std::unique_ptr<StockServer> server = make_stock_server(options, tokenizer);
//   server->open(stop);                                  // its model; that it reads and judges
//   server->judge(text, drafted, stop);                  // one request for all drafted tokens
//   server->go_on(text, 8, stop);                        // plain decoding
//
// Errors name the server. UNAVAILABLE and DEADLINE_EXCEEDED: the link, or a server that is away;
// RESOURCE_EXHAUSTED: it limits rates, see retry_after(); FAILED_PRECONDITION: another tokenizer or
// model; INTERNAL: it failed, or its reply is not what its kind of server says; CANCELLED.
//
// Thread rule: one thread at a time; blocks. The tokenizer outlives it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/enum_names.h"
#include "common/base/json.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/engine/text/tokenizer.h"
#include "common/serving/http/client.h"
#include "edge_client/verifiers/remote.h"

namespace outrider {

// The protocol that a server speaks.
enum class ServerApi : std::uint8_t { kOutrider, kVllm, kLlamaCpp };

template <>
inline constexpr auto enum_names<ServerApi> =
    std::to_array<EnumName<ServerApi>>({{ServerApi::kOutrider, "outrider"},
                                        {ServerApi::kVllm, "vllm"},
                                        {ServerApi::kLlamaCpp, "llama-cpp"}});

struct StockOptions {
  ServerApi api = ServerApi::kVllm;
  std::string model = {};  // its name there; empty: the first that the server lists
  RemoteOptions remote;    // address, key and files of TLS
  Duration timeout = std::chrono::minutes(2);  // of one request
};

// The tokens that follow a text.
struct StockChoices {
  std::vector<TokenId> tokens = {};
  bool ended = false;  // behind them the target ends the text
};

struct StockModel {
  std::string name;
  Position context = 0;    // 0: the server does not say
  Duration probe_took{0};  // one request, which judged kStockProbe
};

class StockServer {
 public:
  virtual ~StockServer() = default;
  StockServer(const StockServer&) = delete;
  StockServer& operator=(const StockServer&) = delete;

  // Asks for its model, whether it reads a text as the same tokens, and whether it judges them.
  virtual Result<StockModel> open(const std::stop_token& stop) = 0;

  // INVALID_ARGUMENT for a prompt that the server would read as other tokens.
  virtual Status check_prompt(std::span<const TokenId> /*prompt*/) const { return {}; }

  // Gives the target's choices behind `text`: as long as it chooses what is drafted, and one token
  // more. They are fewer, or none, where the server's words leave that open, or where two tokens
  // are nearly level (kMinLead): the server computes a judged token in a batch, and alone it may
  // choose the other one.
  virtual Result<StockChoices> judge(std::span<const TokenId> text,
                                     std::span<const TokenId> drafted,
                                     const std::stop_token& stop) = 0;

  // Lets it write on behind `text`: about `count` tokens, at least one unless it ends there.
  virtual Result<StockChoices> go_on(std::span<const TokenId> text, std::size_t count,
                                     const std::stop_token& stop) = 0;

  // With RESOURCE_EXHAUSTED: how long it asks to wait.
  Duration retry_after() const { return retry_after_; }

 protected:
  StockServer(const StockOptions& options, HttpCallerOptions http);

  // The model's name, of options or as the server lists it first, and its entry in that list.
  Result<Json> find_model(const std::stop_token& stop);
  const std::string& model() const { return model_; }
  // Sends `body` with the model's name. A reply that names another model is an error.
  Result<Json> post(const std::string& path, Json body, const std::stop_token& stop);

  // "the vllm server at HOST:PORT".
  const std::string& name() const { return name_; }
  // INTERNAL: the reply lacks `what`.
  Status lacks(const std::string& what) const;
  Status reads_otherwise(const std::string& why) const;

 private:
  Result<Json> ask(OutgoingRequest request, const std::stop_token& stop);
  Status refusal(const HttpReply& reply);

  const StockOptions options_;
  const std::string name_;
  HttpCaller http_;
  std::string model_;
  std::string answering_;  // the model's name in its first reply
  Duration retry_after_{0};
};

// Errors: the files of TLS.
Result<std::unique_ptr<StockServer>> make_stock_server(const StockOptions& options,
                                                       const Tokenizer& tokenizer);
std::unique_ptr<StockServer> make_vllm_server(const StockOptions& options, HttpCallerOptions http,
                                              const Tokenizer& tokenizer);
std::unique_ptr<StockServer> make_llama_cpp_server(const StockOptions& options,
                                                   HttpCallerOptions http,
                                                   const Tokenizer& tokenizer);

// Whether the server gives any reply within that time, over a connection of its own. Any thread.
bool answers(const StockOptions& options, Duration patience);

// A judged token counts if its log-probability is so much above that of any other, in nats.
inline constexpr double kMinLead = 0.5;

inline constexpr char kCompletions[] = "/v1/completions";

// A text on which tokenizers differ: it has what their rules part in different ways.
inline constexpr std::string_view kStockProbe =
    "Robots aren't naïve: 2.50 € for 東京, 🙂\n\n\tint main() { return x_1 != 42; }  "
    "1234567";

// Members of a reply that a server may have left out. Null: there is none.
const Json* member(const Json* json, const char* key);
const Json* element(const Json* json, std::size_t index);
const Json* first_choice(const Json& reply);
// The texts of an array; nothing if it is none of texts.
std::optional<std::vector<std::string>> texts_of(const Json* json);

}  // namespace outrider
