// Answers in the forms that clients read, whole or as server-sent events: chats and plain
// completions here, responses in response_writer.h, messages in message_writer.h. A client that
// sends "outrider": true also gets this program's figures, under "outrider", where the seed of a
// sampled answer stands in any case.
//
// Thread rule: values; a writer by one thread at a time. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/base/status.h"
#include "common/decoding/request/text_options.h"
#include "common/engine/sampling/logprobs.h"
#include "common/serving/http/error_response.h"
#include "common/serving/tools/answer_parser.h"

namespace outrider {

// Interfaces to a model, each with its own form of requests and answers: OpenAI's, and Anthropic's
// messages.
enum class Api : std::uint8_t { kCompletions, kChat, kResponses, kMessages };
// The field of a request that has its prompt: messages, input, or prompt.
std::string prompt_field(Api api);
ErrorForm error_form_of(Api api);

struct AnswerName {
  std::string id;  // "chatcmpl-.."
  std::string model;
  Api api = Api::kCompletions;
  std::int64_t created = 0;  // seconds since 1970
  ServiceTier service_tier = ServiceTier::kDefault;
  nlohmann::ordered_json repeated = {};  // what the answer says of its request
};

// A piece of an answer's text, as it is committed.
struct AnswerPiece {
  std::string text;
  bool drafted = false;   // the draft had guessed it correctly
  bool has_token = true;  // false: text that was held back until the end
  TokenId id = 0;
  std::optional<TokenLogprobs> logprobs = {};  // where they were asked for
};

struct AnswerUsage {
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;  // of the prompt
  std::uint64_t completion_tokens = 0;
  std::uint64_t reasoning_tokens = 0;  // of them: those read as reasoning, with its marks
  std::uint64_t accepted_tokens = 0;   // drafted ones
  std::uint64_t rejected_tokens = 0;
};

// The extras that a client may request in addition to the text.
struct AnswerExtras {
  bool usage = false;         // streams: a last event has the usage
  bool usage_so_far = false;  // streams: every event has it
  bool figures = false;       // this program's, under "outrider"
  bool record = false;        // the answer's (docs/audit.md), the same
};

// How an answer ended.
struct AnswerEnd {
  bool by_length = false;      // the token limit ended it; else it stopped by itself
  bool by_calls = false;       // it stopped by itself, behind calls that are whole
  std::string stop_text = {};  // the client's that ended it; empty: none did
  bool counts_prompt = true;   // in the usage of the whole reply
  AnswerUsage usage = {};
  std::optional<std::uint64_t> seed = {};  // by which it can be repeated; nothing: any does
  Json figures = {};                       // if requested
  std::vector<std::string> record = {};    // the lines of its record, if there is one
  Json level = {};       // of an elastic model: which one answered, predicted and taken times
  Json unverified = {};  // what was given by a deadline, and whether the text confirms it
};

// One of a request's choices, all of it.
struct AnswerChoice {
  std::size_t index = 0;
  AnswerDelta delta = {};
  AnswerEnd end = {};
  nlohmann::ordered_json logprobs = nullptr;  // LogprobsForm's; null: none are wanted
};

// The tokens that were committed, as what they add to a choice.
struct AnswerPart {
  std::size_t index = 0;
  const AnswerDelta& delta;
  std::span<const AnswerPiece> pieces = {};  // from which it was read
  const AnswerUsage& usage;                  // up to now
  const nlohmann::ordered_json& logprobs;    // LogprobsForm's, of the pieces
};

// Writes the reply to one request.
//
//   first_events (delta_event | unverified_event | last_event)* stream_end     of a stream
//   whole_answer                                                               of another reply
class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;
  virtual std::string first_events(std::size_t choices) = 0;
  // Empty: the tokens add nothing yet.
  virtual std::string delta_event(const AnswerPart& part) = 0;
  // How the choice would continue if the draft is right, given by a deadline. whole: to its end.
  virtual std::string unverified_event(std::size_t index, const std::string& continuation,
                                       bool whole) = 0;
  // The end of one choice.
  virtual std::string last_event(std::size_t index, const AnswerEnd& end) = 0;
  virtual std::string stream_end(std::span<const AnswerChoice> choices) = 0;
  // An error after the stream has begun. Nothing follows: the answer is not complete.
  virtual std::string error_event(const Status& status) const = 0;
  virtual std::string whole_answer(std::span<const AnswerChoice> choices) = 0;
};

// Chats and plain completions.
std::unique_ptr<AnswerWriter> choices_writer(AnswerName name, const AnswerExtras& extras);

// This program's own words about a choice: figures if requested, the seed and the level unasked.
void add_own(const AnswerExtras& extras, const AnswerEnd& end, nlohmann::ordered_json& json);
// The text of JSON. The session holds incomplete characters back, so it is UTF-8; if a faulty
// tokenizer breaks that, invalid bytes are replaced.
std::string written(const nlohmann::ordered_json& json);

}  // namespace outrider
