// The clients of a load: each sends one request after the other, and stamps when tokens come.
//
// Thread rule: one thread at a time for each client. Ownership: what setups and requests refer to
// outlives the clients. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bench/load/load_figures.h"
#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/engine/text/tokenizer.h"
#include "common/serving/http/client.h"
#include "edge_client/speculation/strategy.h"

namespace outrider {

struct LoadPrompt {
  std::string text;          // as a user's message in a chat
  std::vector<TokenId> ids;  // the same in the model's chat template
};

// The answers to all requests.
struct LoadAnswers {
  Position max_tokens = 128;
  double temperature = 0;
  bool ignore_eos = false;
};

struct LoadRequest {
  const LoadPrompt& prompt;
  std::uint64_t seed = 0;
  const std::atomic<bool>& stop;  // greedy sessions end their answer when it is set
};

struct ClientAnswer {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t tokens = 0;
  std::vector<TokenArrival> arrivals = {};  // since the request was sent
};

class LoadClient {
 public:
  virtual ~LoadClient() = default;

  // Blocks until the answer has ended.
  virtual Result<ClientAnswer> answer(const LoadRequest& request) = 0;
};

struct EdgeClientSetup {
  Address server;
  std::string key;    // empty: none
  std::string draft;  // a directory or a GGUF file; empty: the target decodes alone
  Strategy strategy = Strategy::kMirror;
  int gamma = 8;
  Position max_positions = 0;  // of the target; 0: as the draft's context allows
  const Tokenizer& tokenizer;
  LoadAnswers answers;
};

// Errors: those of loading the draft.
Result<std::unique_ptr<LoadClient>> make_edge(const EdgeClientSetup& setup, Clock& clock);

struct OpenAiSetup {
  Address server;
  std::string key;    // empty: none
  std::string model;  // openai_model()
  LoadAnswers answers;
};

std::unique_ptr<LoadClient> make_openai_client(const OpenAiSetup& setup, Clock& clock);

// The body of an HTTP server's reply. key: goes as a bearer token; empty: none. The error for which
// another status than 200 stands, with OpenAI's message if the body has one; UNAVAILABLE or
// DEADLINE_EXCEEDED where no reply comes.
Result<std::string> http_body(const Address& server, OutgoingRequest request,
                              const std::string& key);

// The name of the model that an OpenAI server has. UNAVAILABLE or NOT_FOUND, with the remedy, where
// there is no such server or no such route.
Result<std::string> openai_model(const Address& server, const std::string& key);

// A session that asks for the largest passes that the protocol allows: after each verdict as many
// guesses as the server takes, of which hardly one stands. Of setup it uses server, key, tokenizer
// and answers.
std::unique_ptr<LoadClient> make_greedy_session(const EdgeClientSetup& setup, Clock& clock);

}  // namespace outrider
