// Answers in the form that OpenAI's clients read, whole or as server-sent events. A client that
// sends "outrider": true also gets this program's figures and one entry per token, under
// "outrider", where the seed of a sampled answer stands in any case.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "common/base/json.h"
#include "common/base/status.h"
#include "common/decoding/request/text_options.h"
#include "common/engine/sampling/logprobs.h"
#include "common/serving/tools/answer_parser.h"

namespace outrider {

struct AnswerName {
  std::string id;  // "chatcmpl-.."
  std::string model;
  bool is_chat = false;
  std::int64_t created = 0;  // seconds since 1970
  ServiceTier service_tier = ServiceTier::kDefault;
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
  std::uint64_t accepted_tokens = 0;  // drafted ones
  std::uint64_t rejected_tokens = 0;
};

// The extras that a client may request in addition to the text.
struct AnswerExtras {
  bool usage = false;         // streams: a last event has the usage
  bool usage_so_far = false;  // streams: every event has it
  bool figures = false;       // this program's, under "outrider"
};

// How an answer ended.
struct AnswerEnd {
  bool by_length = false;     // the token limit ended it; else it stopped by itself
  bool by_calls = false;      // it stopped by itself, behind calls that are whole
  bool counts_prompt = true;  // in the usage of the whole reply
  AnswerUsage usage = {};
  std::optional<std::uint64_t> seed = {};  // by which it can be repeated; nothing: any does
  Json figures = {};                       // if requested
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

// The first events of a stream, which name the role, one for each choice of a chat.
std::string first_events(const AnswerName& name, const AnswerExtras& extras, std::size_t choices);
// The event that adds committed tokens to a choice; empty if they add no text yet. usage: up to
// now. logprobs: in the form of LogprobsForm, for the pieces.
std::string delta_event(const AnswerName& name, const AnswerExtras& extras, std::size_t index,
                        const AnswerDelta& delta, std::span<const AnswerPiece> pieces,
                        const AnswerUsage& usage, const nlohmann::ordered_json& logprobs);
// How the answer would continue if the draft is right, given by a deadline. whole: to its end.
std::string unverified_event(const AnswerName& name, const AnswerExtras& extras, std::size_t index,
                             const std::string& continuation, bool whole);
// The finish reason of a choice.
std::string last_event(const AnswerName& name, const AnswerExtras& extras, std::size_t index,
                       const AnswerEnd& end);
// Usage of all choices if requested, and the end of the stream.
std::string stream_end(const AnswerName& name, const AnswerExtras& extras,
                       std::span<const AnswerChoice> choices);

// An error after the stream has begun. No [DONE] follows: the answer is not complete.
std::string error_event(const Status& status);

std::string whole_answer(const AnswerName& name, const AnswerExtras& extras,
                         std::span<const AnswerChoice> choices);

}  // namespace outrider
