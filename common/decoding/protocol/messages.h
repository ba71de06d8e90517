// The messages between edge and verifier, as plain values. The wire form is proto/outrider/v1; the
// meaning is docs/protocol.md. These structs do not depend on gRPC, so that the sessions of both
// sides, the resident verifier and the simulations share them.
//
// A struct here has the shape of its message but no validity: the receiver checks it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "common/base/types.h"
#include "common/decoding/costs/pass_costs.h"
#include "common/decoding/request/text_options.h"
#include "common/decoding/tree/grow.h"
#include "common/engine/sampling/logprobs.h"
#include "common/engine/sampling/sampling.h"

namespace outrider {

inline constexpr std::uint32_t kProtocolVersion = 1;

// When an idle verifying session starts a pass.
enum class PassPolicy : std::uint8_t {
  kOnRequest = 0,  // a living node hangs under the root, or an empty Grow asks
  kEager = 1,      // also after `patience`, with the nodes that live then, or with none
};

// The longest patience that a Policy may name.
inline constexpr Duration kMaxPatience = std::chrono::minutes(1);

// Takes effect when the next pass starts; may change mid-answer.
struct Policy {
  PassPolicy pass_policy = PassPolicy::kOnRequest;
  Duration patience{0};
  bool wants_exits = false;
  std::uint32_t row_limit = 0;  // most nodes a pass takes; 0: the server's limit

  friend bool operator==(const Policy&, const Policy&) = default;
};

// --- edge to verifier -------------------------------------------------------------------------

struct Open {
  std::uint32_t protocol_version = kProtocolVersion;
  std::uint32_t noise_version = kNoiseVersion;
  std::string tokenizer_hash;  // hex, of the canonical content; both sides must agree
  SamplingParams sampling;
  std::uint64_t seed = 0;
  std::vector<TokenId> prefix;
  Position end_position = 0;  // absolute: prefix and answer; a reconnect does not extend it
  Policy policy;
  std::vector<TokenId> stop_ids;       // in addition to the target's own
  std::string expected_fingerprint;    // empty: any. Mandatory on reconnect and failover
  std::string expected_arithmetic_id;  // empty: any. Mandatory on reconnect and failover
  std::string replaced_session;  // the server frees its resources or takes them over; empty: none
  std::string session_key;       // 32 hex digits, the same in every Open of an answer; empty: none
  // If not 0, `prefix` is empty and this many ids follow in Prefix messages, unless the server has
  // ids with the hash prefix_hash (prefix_hash()).
  Position prefix_length = 0;
  std::string prefix_hash;
  bool accept_other_arithmetic =
      false;  // accept another id than expected_arithmetic_id; the text may then differ
  bool pad_frames =
      false;  // pad messages to one size, with the same number of messages for each pass
  std::string template_hash = {};    // of the chat template that wrote the prefix; empty: any
  bool ignore_target_stops = false;  // only stop_ids and end_position end the answer
  ServiceTier service_tier = ServiceTier::kDefault;
  bool accepts_server_nodes = false;  // verdicts may walk along nodes that the edge never sent
  // Where they change anything, noise_version is kAdjustedNoiseVersion, or with a constraint
  // kConstrainedNoiseVersion (set_settings()). The receiver of a constraint compiles it.
  ChoiceSettings settings = {};
  // The position of the answer's first token, from which `settings` count; at most the prefix's
  // length. 0: the prefix is the prompt.
  Position answer_begin = 0;
  // Verdicts carry log-probabilities, with so many of the likeliest tokens. Nothing: they do not.
  std::optional<std::uint32_t> top_logprobs = {};
  // With top_logprobs: PromptLogprobs say those of the prefix's tokens, before the first verdict.
  bool prompt_logprobs = false;
  // Verdicts carry the digests of rows that row_digest.h says, for a record of the answer.
  bool wants_digests = false;
  // The level of an elastic target that answers, by its name; empty: the full one.
  std::string level = {};

  // Those of an answer whose first token has this position.
  void set_settings(const ChoiceSettings& asked, Position begin);
};

// A piece of an Open's prefix. All but the last hold at least kPrefixPiece ids.
struct Prefix {
  std::vector<TokenId> ids;
};
inline constexpr std::size_t kPrefixPiece = 256;

struct Cancel {};

// Has no content except the acknowledgement.
struct AckOnly {};

// Every message of the edge acknowledges what it has received.
struct EdgeMessage {
  using Body = std::variant<AckOnly, Open, Grow, Policy, Cancel, Prefix>;

  Position acked_position = 0;      // first position the edge does not have
  std::uint32_t acked_reports = 0;  // highest ExitReport.seq seen
  Body body;
};

// The memory that a message takes, so that queues of messages can be bounded.
std::size_t size_in_memory(const EdgeMessage& message);

// The name of a prefix, by which a reconnect avoids sending it again: hex SHA-256 of the ids, 4
// bytes each, little endian.
std::string prefix_hash(std::span<const TokenId> ids);

// --- verifier to edge -------------------------------------------------------------------------

struct Limits {
  std::uint32_t max_nodes = 64;   // living nodes at once; this value holds until Opened sets it
  std::uint32_t max_rows = 33;    // rows of one verifying pass
  std::uint32_t run_ahead = 512;  // tokens past acked_position before the verifier pauses
  std::uint32_t max_message_bytes = 1 << 20;
  Position max_positions = 0;  // the target's context
  std::int32_t vocab_size = 0;
  // 0: no such limit, or it is not disclosed.
  Duration max_patience{0};
  Duration open_timeout{0};  // between two pieces of an Open
  Duration idle_timeout{0};  // time without progress after which the session ends
  Duration pass_limit{0};    // the longest wait for a verdict at present; Verdict updates it
};

// Opened::arithmetic_id where the verifier asks a server whose arithmetic is not Outrider's.
inline constexpr char kForeignArithmetic[] = "not Outrider's bits";

struct Opened {
  std::string session_id = {};
  std::string fingerprint = {};
  std::string arithmetic_id = {};
  std::string model_name = {};
  std::vector<TokenId> stop_ids = {};    // all that end this answer
  std::vector<std::int32_t> exits = {};  // layers after which the target can report an early exit
  Limits limits = {};
  PassCosts pass_costs = {};  // as measured recently
  std::string server_version = {};
  Duration wall_clock{0};      // the server's clock when it sent this, since 1970; 0: not disclosed
  bool pad_frames = false;     // as Open.pad_frames; from now on the edge pads too
  bool server_drafts = false;  // the verifier adds nodes of its own to this stream's passes
  // The target's, in ModelInfo's words: "int8", "f32". Empty: not disclosed.
  std::string dtype = {};
  std::string kv_dtype = {};
  std::string level = {};  // that answers; empty: the target has no levels
};

// Sent during a long prefill.
struct Progress {
  Position done = 0;
  Position total = 0;
};

struct Started {
  std::uint32_t pass = 0;
  Position position = 0;              // `end` when the pass started
  NodeId last_id = 0;                 // the pass took all living nodes with id <= last_id
  std::vector<NodeId> left_out = {};  // except these
};

// Whether the pass took this sent node.
inline bool pass_took(const Started& started, NodeId id) {
  return id <= started.last_id && std::ranges::find(started.left_out, id) == started.left_out.end();
}

// How busy the device is with other sessions, in steps too coarse to time those.
enum class Load : std::uint8_t { kUntold, kFree, kSome, kBusy, kFull };

// Server-side times of one pass.
struct PassTimings {
  Duration waited{0};  // idle before the pass
  Duration queued{0};  // ready, but the device was busy with other sessions; 0 where `load` is sent
  Duration computed{0};  // the pass itself
  Load load = Load::kUntold;
};

struct Verdict {
  std::uint32_t pass = 0;
  Position position = 0;             // of tokens[0]
  std::vector<TokenId> tokens = {};  // at least one; the last is the next token, not a node's
  std::uint32_t rows = 0;            // rows the pass computed
  PassTimings timings = {};
  Duration pass_limit{0};  // new value of Limits::pass_limit; 0: unchanged
  // Rows of all sessions that its passes served, perhaps rounded up; 0: of this session alone.
  std::uint32_t batch_rows = 0;
  // Bit i: tokens[i] was a node of the verifier's own, not of the edge's; of the first
  // kMarkedTokens.
  std::uint64_t server_nodes = 0;
  std::vector<TokenLogprobs> logprobs = {};  // of each token, where Open asked for them
  // The rows' behind which its tokens at positions with has_digest() were chosen, in order, where
  // Open asked for them (row_digest.h). Empty: a verifier that is older gives none.
  std::vector<std::uint64_t> digests = {};
};
inline constexpr std::size_t kMarkedTokens = 64;

// The log-probabilities of the prefix's next tokens. The messages come in order, from position 1
// on: no row says anything of a text's first token.
struct PromptLogprobs {
  Position position = 0;                     // of the token that the first of them is of
  std::vector<TokenLogprobs> logprobs = {};  // at least one
};

struct ExitReport {
  std::uint32_t pass = 0;
  std::int32_t exit = 0;  // index into Opened.exits
  NodeId leaf_id = 0;     // the node where that exit's own walk ends; 0: the root
  TokenId next_token = 0;
  std::uint8_t confidence = 0;  // 0..255 for 0..1
  std::uint32_t seq = 0;
  // Behind that node, before next_token: nodes of the verifier's own along which the walk goes on.
  std::vector<TokenId> path = {};
};
inline constexpr std::size_t kMaxReportPath = 8;

enum class FinishReason : std::uint8_t { kStop, kLength, kCancelled, kError };

// Ends the stream.
struct Usage {
  FinishReason reason = FinishReason::kStop;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;  // prompt tokens whose keys and values were there
  std::uint64_t completion_tokens = 0;
  std::uint64_t passes = 0;
  std::uint64_t rows = 0;
  std::uint64_t dead_on_arrival = 0;  // nodes that were dead when they arrived
  Duration compute{0};
  std::uint64_t rows_pruned = 0;  // of `rows`, those dropped before the end of their pass
};

struct Notice {
  enum class Kind : std::uint8_t {
    kReconnectSoon,
    kOverloaded,
    kSendPrefix
  } kind = Kind::kReconnectSoon;
  Duration retry_after{0};
};

using ServerMessage =
    std::variant<Opened, Progress, Started, Verdict, ExitReport, Usage, Notice, PromptLogprobs>;

}  // namespace outrider
