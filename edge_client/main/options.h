// The flags of outrider-edge. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "edge_client/flash/make_pack.h"
#include "edge_client/generation/generation_config.h"

namespace outrider {

// Flags of `run` and `chat`.
struct AnswerOptions {
  GenerationConfig generation;   // but for draft_pace and reconnect_timeout, which stand below
  std::string flash_bandwidth;   // as parse_bandwidth() reads it; empty: this device's own
  std::optional<TreeKind> tree;  // nothing: default_trees()
  std::string pace_step;         // as PaceCurve reads it; empty: as fast as it goes
  double reconnect_timeout_s = 30;
  double failover_after_s = 5;
  double handback_after_s = 2;
  double max_rtt_ms = 0;
  double metered_limit_mb = 0;
  std::string chat_template;  // a name, "none", or empty: the tokenizer's own
  bool insecure = false;

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

// Flags of `serve` beside those of answers.
struct ServingOptions {
  std::string host = "127.0.0.1";
  int port = 8080;
  int max_queued_requests = 32;
  std::string model_name;  // as clients name it; empty: the draft's or the tokenizer's directory
};

// Flags of `doctor` beside those of answers.
struct DoctorOptions {
  std::vector<std::string> prompts;  // empty: its own
};

// Flags of `tokenize` and `detokenize`.
struct TokenizeOptions {
  std::string tokenizer;
  bool no_special = false;
  bool whole = false;
};

void add_answer_flags(CLI::App& command, AnswerOptions& options);
void add_prompt_flags(CLI::App& command, PromptOptions& options);
void add_serve_flags(CLI::App& command, ServingOptions& options);
void add_doctor_flags(CLI::App& command, DoctorOptions& options);
void add_tokenize_flags(CLI::App& command, TokenizeOptions& options);
void add_pack_flags(CLI::App& command, PackOptions& options);

// What the flags mean together. INVALID_ARGUMENT for what no single flag can judge,
// contradictions and plaintext beyond loopback; it names the flags and the remedy.
Result<GenerationConfig> generation_config(const AnswerOptions& options);

}  // namespace outrider
