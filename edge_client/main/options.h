// The flags of outrider-edge. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/sampling/sampling.h"
#include "edge_client/session/decoding_session.h"

namespace outrider {

// Flags of `run` and `chat`.
struct AnswerOptions {
  std::string model;      // the draft's directory; empty: no draft
  std::string tokenizer;  // a directory; empty: the model's, or else the target's
  std::string server = "127.0.0.1:8001";
  std::string target;    // a directory; empty: the server decides
  std::string strategy;  // a name of Strategy; empty: mirror if there is a draft
  int gamma = 4;
  int fan_out = 3;
  int predraft_workers = 4;
  std::string queue = "priority";    // "fifo", "random"
  std::string optimize = "latency";  // "cost", "balanced"
  double uplink_budget = 0;          // bytes/s; 0: what the measured link carries

  std::int64_t max_tokens = -1;  // -1: until a stop or the end of the context
  std::int64_t context = 0;      // prompt and answer together; 0: the target's context
  SamplingParams sampling;
  std::uint64_t seed = 0;
  std::vector<std::string> stop;
  std::string chat_template;  // a name, "none", or empty: the tokenizer's own

  std::string dtype = "auto";  // "auto": as stored
  int threads = 0;             // 0: one per core
  std::string pace_step;       // as PaceCurve reads it; empty: as fast as it goes
  bool insecure = false;
  double reconnect_timeout_s = 30;

  bool color_accept = false;
  bool json = false;
  bool explain = false;
  std::string trace;  // a file; empty: none
};

// Flags of `run` alone.
struct PromptOptions {
  std::optional<std::string> prompt;
  std::string file;  // "-": stdin
  bool raw = false;  // the prompt is the text, no chat template
};

// Flags of `tokenize` and `detokenize`.
struct TokenizeOptions {
  std::string tokenizer;
  bool no_special = false;
  bool whole = false;
};

void add_answer_flags(CLI::App& command, AnswerOptions& options);
void add_prompt_flags(CLI::App& command, PromptOptions& options);
void add_tokenize_flags(CLI::App& command, TokenizeOptions& options);

// What no single flag can judge: contradictions, plaintext beyond loopback. INVALID_ARGUMENT names
// the flags and the remedy.
Status validate(const AnswerOptions& options);

// Whether this answer drafts.
bool wants_draft(const AnswerOptions& options);

// What the names in the options stand for; they have passed the parser. The strategy is that of an
// answer that drafts.
Strategy strategy_of(const AnswerOptions& options);
QueueOrder queue_of(const AnswerOptions& options);
Optimize goal_of(const AnswerOptions& options);

// Where the tokenizer is read from; INVALID_ARGUMENT if no flag tells.
Result<std::string> tokenizer_directory(const AnswerOptions& options);

}  // namespace outrider
