// A record of an answer: what it was asked with, and a chain of stretches, each with the tokens
// that one verifier decided (docs/audit.md). It is text, one JSON object a line:
//
//   {"outrider_record":1, "id":.., "seed":.., "prompt":[..], ..}               RecordTerms
//   {"stretch":0, "before":"<hash of the line above>", "ids":[..], ..}         RecordStretch
//   {"stretch":1, "before":"<hash of the line above>", .., "ending":"length"}  the last one
//
// Where a key signs, each stretch ends with ,"signature":"<128 digits>"} over the line without
// that. As a line holds the hash of the one before, its signature covers all lines up to it.
//
// Thread rule: values and pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/json.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/decoding/protocol/messages.h"
#include "common/engine/sampling/sampling.h"

namespace outrider {

inline constexpr std::uint32_t kRecordVersion = 1;
// How the first line of a record begins.
inline constexpr char kRecordBegins[] = R"({"outrider_record":)";

struct RecordBias {
  TokenId token = 0;
  float bias = 0;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("token", self.token);
    field("bias", self.bias);
  }
};

// The first line: what decides an answer beside its target. Fields as Open's.
struct RecordTerms {
  std::uint32_t version = kRecordVersion;
  std::string id = {};       // 32 hex digits, of this answer alone
  std::string program = {};  // that recorded it
  std::string tokenizer_hash = {};
  std::string template_hash = {};  // empty: no template of the target's wrote the prompt
  std::uint32_t noise_version = kNoiseVersion;
  float temperature = 0;
  std::int32_t top_k = 0;
  float top_p = 1;
  float min_p = 0;
  std::uint64_t seed = 0;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  float repetition_penalty = 1;
  std::vector<RecordBias> logit_bias = {};
  std::int64_t min_tokens = 0;
  std::vector<std::vector<TokenId>> bad_words = {};
  std::uint32_t constraint_kind = 0;   // as ConstraintKind; 0: none
  std::string constraint = {};         // its text
  std::vector<TokenId> stop_ids = {};  // beside the target's own
  bool ignore_target_stops = false;
  Position end_position = 0;
  Position prompt_tokens = 0;
  std::optional<std::vector<TokenId>> prompt = {};  // nothing: prompt_hash stands for it
  std::optional<std::string> prompt_hash = {};      // salted_hash(); nothing: the ids are there
  std::string signer = {};                          // public key of the signatures; empty: none

  SamplingParams sampling() const { return {temperature, top_k, top_p, min_p}; }
  ChoiceSettings settings() const;  // their constraint is not compiled

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("outrider_record", self.version);
    field("id", self.id);
    field("program", self.program);
    field("tokenizer_hash", self.tokenizer_hash);
    field("template_hash", self.template_hash);
    field("noise_version", self.noise_version);
    field("temperature", self.temperature);
    field("top_k", self.top_k);
    field("top_p", self.top_p);
    field("min_p", self.min_p);
    field("seed", self.seed);
    field("presence_penalty", self.presence_penalty);
    field("frequency_penalty", self.frequency_penalty);
    field("repetition_penalty", self.repetition_penalty);
    field("logit_bias", self.logit_bias);
    field("min_tokens", self.min_tokens);
    field("bad_words", self.bad_words);
    field("constraint_kind", self.constraint_kind);
    field("constraint", self.constraint);
    field("stop_ids", self.stop_ids);
    field("ignore_target_stops", self.ignore_target_stops);
    field("end_position", self.end_position);
    field("prompt_tokens", self.prompt_tokens);
    field("prompt", self.prompt);
    field("prompt_hash", self.prompt_hash);
    field("signer", self.signer);
  }
};

// The tokens that one verifier decided in one stream.
struct RecordStretch {
  std::uint32_t stretch = 0;  // its number
  std::string before = {};    // SHA-256 of the line above, in hex
  std::string verifier = {};  // in words: "device", or "server" and its version
  std::string model = {};     // a level of an elastic model: "NAME@LEVEL"
  std::string dtype = {};     // in words; empty: the verifier did not say
  std::string kv_dtype = {};
  std::string fingerprint = {};
  std::string arithmetic_id = {};
  Position position = 0;  // of its first token
  Position tokens = 0;
  std::optional<std::vector<TokenId>> ids = {};  // nothing: ids_hash stands for them
  std::optional<std::string> ids_hash = {};
  // 16 hex digits for each of its positions with has_digest() (row_digest.h), in order. None,
  // though it has such positions: the verifier is older than digests.
  std::vector<std::string> digests = {};
  std::string ending = {};  // of the answer, as edges name it; empty: another stretch follows

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("stretch", self.stretch);
    field("before", self.before);
    field("verifier", self.verifier);
    field("model", self.model);
    field("dtype", self.dtype);
    field("kv_dtype", self.kv_dtype);
    field("fingerprint", self.fingerprint);
    field("arithmetic_id", self.arithmetic_id);
    field("position", self.position);
    field("tokens", self.tokens);
    field("ids", self.ids);
    field("ids_hash", self.ids_hash);
    field("digests", self.digests);
    field("ending", self.ending);
  }
};

// The texts of a record that has hashes only. They stay with the answer's owner, who gives them to
// the auditor: without the salt nobody can check a guess of them.
struct RecordTexts {
  std::string id = {};    // of the record
  std::string salt = {};  // 32 hex digits
  std::vector<TokenId> prompt = {};
  std::vector<TokenId> answer = {};

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("id", self.id);
    field("salt", self.salt);
    field("prompt", self.prompt);
    field("answer", self.answer);
  }
};

// An answer's terms. open: as the first of its answer; its prefix may have gone in pieces.
RecordTerms record_terms(const Open& open, std::span<const TokenId> prompt);

std::string digest_text(std::uint64_t digest);
// SHA-256 in hex of the salt and the ids.
std::string salted_hash(const std::string& salt, std::span<const TokenId> ids);
// SHA-256 in hex of a line, by which the next one names it.
std::string line_hash(std::string_view line);

// A line without its end. Its first field stands first.
std::string to_line(const RecordTerms& terms);
std::string to_line(const RecordStretch& stretch);

// A stretch's line with a signature, and the same taken apart: the line as it was signed, and the
// signature, empty if it has none.
std::string with_signature(std::string_view line, std::string_view signature);
struct SignedLine {
  std::string line = {};
  std::string signature = {};
};
SignedLine without_signature(std::string_view line);
// The text that is signed: the line, behind words that keep the signature from meaning anything
// else.
std::string signed_text(std::string_view line);

}  // namespace outrider
