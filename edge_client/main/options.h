// The flags of outrider-edge. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/App.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/serving/conversation/conversation.h"
#include "common/serving/credentials/certificates.h"
#include "edge_client/flash/make_pack.h"
#include "edge_client/generation/generation_config.h"
#include "edge_client/serve/edge_server.h"

namespace outrider {

// Flags of `run` and `chat`.
struct AnswerOptions {
  GenerationConfig generation;
  std::optional<TreeChoice> tree;  // nothing: default_trees()
  bool insecure = false;
  bool offline = false;          // as --mode offline
  std::vector<std::string> slo;  // "time_ms=800"

  bool color_accept = false;
  bool json = false;
  bool explain = false;
  std::string trace;  // a file; empty: none
};

// Flags of `run` alone.
struct PromptOptions {
  std::optional<std::string> prompt;
  std::string file;           // "-": stdin
  bool raw = false;           // the prompt is the text, no chat template
  bool parse_special = true;  // as RawOptions says
};

// Flags of `chat` beside those of answers.
struct ChatOptions {
  bool context_shift = false;
};

// Flags of `serve` beside those of answers.
struct ServingOptions {
  EdgeServerOptions server;
  std::string otlp_traces_endpoint = {};  // empty: the environment's
  TlsFiles tls = {.flags = "--http-tls"};
  Duration shutdown_timeout = std::chrono::seconds(45);
};

// Flags of `doctor` beside those of answers.
struct DoctorOptions {
  std::vector<std::string> prompts;  // empty: its own
};

// Flags of `tokenize` and `detokenize`.
struct TokenizeOptions {
  std::string tokenizer;
  RawOptions raw = {.add_special = false};  // of tokenize
  bool no_special = false;                  // of detokenize: without what frames a text
  bool whole = false;
};

// Flags of `audit`.
struct AuditOptions {
  std::string file;
  std::string texts;  // of a record that has hashes only; empty: FILE.texts
  GenerationConfig generation;
  std::string signer;                 // public key; empty: records may be signed or not
  double sample = 1;                  // share of the answers that are audited
  std::optional<std::uint64_t> seed;  // by which they are drawn
};

// The parts that another edge program adds to outrider-edge's own.
struct EdgeParts {
  const char* program = "outrider-edge";
  std::span<const GuestStrategy> strategies = {};
  std::span<const GuestTree> trees = {};
  // Adds flags to a command that answers; they fill its options.
  std::function<void(CLI::App& command, AnswerOptions& options)> add_flags = {};
};

void add_answer_flags(CLI::App& command, AnswerOptions& options, const EdgeParts& parts);
void add_prompt_flags(CLI::App& command, PromptOptions& options);
void add_chat_flags(CLI::App& command, ChatOptions& options);
void add_serve_flags(CLI::App& command, ServingOptions& options);
void add_doctor_flags(CLI::App& command, DoctorOptions& options);
void add_tokenize_flags(CLI::App& command, TokenizeOptions& options);
void add_detokenize_flags(CLI::App& command, TokenizeOptions& options);
void add_pack_flags(CLI::App& command, PackOptions& options);
void add_audit_flags(CLI::App& command, AuditOptions& options);

// The configuration that the flags mean together. INVALID_ARGUMENT for contradictions between flags
// and for plaintext beyond loopback; it names the flags and the remedy.
Result<GenerationConfig> generation_config(const AnswerOptions& options);

}  // namespace outrider
