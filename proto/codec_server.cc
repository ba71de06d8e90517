// Server to edge. SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "proto/codec.h"
#include "proto/codec_fields.h"
#include "proto/outrider/v1/outrider.pb.h"

namespace outrider {
namespace {

using codec::from_duration;
using codec::from_int32s;
using codec::from_name;
using codec::to_confidence;
using codec::to_duration;
using codec::to_finite;
using codec::to_int32;
using codec::to_int32s;
using codec::to_name;
using codec::to_position;

std::uint64_t from_position(Position position) {
  return static_cast<std::uint64_t>(position);
}

v1::FinishReason encode(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return v1::STOP;
    case FinishReason::kLength:
      return v1::LENGTH;
    case FinishReason::kCancelled:
      return v1::CANCELLED;
    case FinishReason::kError:
      return v1::ERROR;
  }
  return v1::ERROR;
}

v1::Notice::Kind encode(Notice::Kind kind) {
  switch (kind) {
    case Notice::Kind::kReconnectSoon:
      return v1::Notice::RECONNECT_SOON;
    case Notice::Kind::kOverloaded:
      return v1::Notice::OVERLOADED;
    case Notice::Kind::kSendPrefix:
      return v1::Notice::SEND_PREFIX;
  }
  return v1::Notice::RECONNECT_SOON;
}

Result<Notice::Kind> decode(v1::Notice::Kind kind) {
  switch (kind) {
    case v1::Notice::RECONNECT_SOON:
      return Notice::Kind::kReconnectSoon;
    case v1::Notice::OVERLOADED:
      return Notice::Kind::kOverloaded;
    case v1::Notice::SEND_PREFIX:
      return Notice::Kind::kSendPrefix;
    default:
      return codec::out_of_range("notice.kind", static_cast<std::uint64_t>(kind),
                                 v1::Notice::SEND_PREFIX);
  }
}

struct ServerBodyEncoder {
  v1::ServerMessage& out;

  void operator()(const Opened& opened) const {
    v1::Opened& wire = *out.mutable_opened();
    wire.set_session_id(from_name(opened.session_id));
    wire.set_fingerprint(from_name(opened.fingerprint));
    wire.set_arithmetic_id(from_name(opened.arithmetic_id));
    wire.set_model_name(from_name(opened.model_name));
    from_int32s(opened.stop_ids, *wire.mutable_stop_ids());
    from_int32s(opened.exits, *wire.mutable_exits());
    v1::Limits& limits = *wire.mutable_limits();
    limits.set_max_nodes(opened.limits.max_nodes);
    limits.set_max_rows(opened.limits.max_rows);
    limits.set_run_ahead(opened.limits.run_ahead);
    limits.set_max_message_bytes(opened.limits.max_message_bytes);
    limits.set_max_positions(from_position(opened.limits.max_positions));
    limits.set_vocab_size(static_cast<std::uint32_t>(opened.limits.vocab_size));
    limits.set_max_patience_us(from_duration(opened.limits.max_patience));
    limits.set_open_timeout_us(from_duration(opened.limits.open_timeout));
    limits.set_idle_timeout_us(from_duration(opened.limits.idle_timeout));
    limits.set_pass_limit_us(from_duration(opened.limits.pass_limit));
    wire.set_server_version(from_name(opened.server_version));
    wire.set_wall_clock_us(static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(opened.wall_clock).count()));
    wire.set_pad_frames(opened.pad_frames);
    wire.set_server_drafts(opened.server_drafts);
    wire.set_dtype(from_name(opened.dtype));
    wire.set_kv_dtype(from_name(opened.kv_dtype));
    wire.set_level(from_name(opened.level));
    if (!opened.pass_costs.points.empty())
      encode_costs(opened.pass_costs, *wire.mutable_pass_costs());
  }

  static void encode_costs(const PassCosts& costs, v1::PassCosts& wire) {
    for (const PassCosts::Point& point : costs.points) {
      wire.add_rows(point.rows);
      // A time of 0 would be refused; a toy model's pass takes less than a microsecond.
      wire.add_time_us(std::max(1u, static_cast<std::uint32_t>(from_duration(point.time))));
    }
    wire.set_exits_percent(costs.exits_percent);
  }

  void operator()(const Progress& progress) const {
    v1::Progress& wire = *out.mutable_progress();
    wire.set_done(from_position(progress.done));
    wire.set_total(from_position(progress.total));
  }

  void operator()(const Started& started) const {
    v1::Started& wire = *out.mutable_started();
    wire.set_pass(started.pass);
    wire.set_position(from_position(started.position));
    wire.set_last_id(started.last_id);
    wire.mutable_left_out()->Add(started.left_out.begin(), started.left_out.end());
  }

  void operator()(const Verdict& verdict) const {
    v1::Verdict& wire = *out.mutable_verdict();
    wire.set_pass(verdict.pass);
    wire.set_position(from_position(verdict.position));
    from_int32s(verdict.tokens, *wire.mutable_tokens());
    wire.set_rows(verdict.rows);
    wire.set_waited_us(from_duration(verdict.timings.waited));
    wire.set_queued_us(from_duration(verdict.timings.queued));
    wire.set_computed_us(from_duration(verdict.timings.computed));
    wire.set_pass_limit_us(from_duration(verdict.pass_limit));
    wire.set_load(static_cast<std::uint32_t>(verdict.timings.load));
    wire.set_batch_rows(verdict.batch_rows);
    wire.set_server_nodes(verdict.server_nodes);
    for (const TokenLogprobs& one : verdict.logprobs) encode_logprobs(one, *wire.add_logprobs());
    wire.mutable_digests()->Add(verdict.digests.begin(), verdict.digests.end());
  }

  static void encode_logprobs(const TokenLogprobs& logprobs, v1::TokenLogprobs& wire) {
    wire.set_chosen(logprobs.chosen);
    for (const Candidate& one : logprobs.top) {
      wire.add_top_tokens(static_cast<std::uint32_t>(one.token));
      wire.add_top(one.score);
    }
  }

  void operator()(const PromptLogprobs& scored) const {
    v1::PromptLogprobs& wire = *out.mutable_prompt_logprobs();
    wire.set_position(from_position(scored.position));
    for (const TokenLogprobs& one : scored.logprobs) encode_logprobs(one, *wire.add_logprobs());
  }

  void operator()(const ExitReport& report) const {
    v1::ExitReport& wire = *out.mutable_exit_report();
    wire.set_pass(report.pass);
    wire.set_exit(static_cast<std::uint32_t>(report.exit));
    wire.set_leaf_id(report.leaf_id);
    wire.set_next_token(static_cast<std::uint32_t>(report.next_token));
    wire.set_confidence(report.confidence);
    wire.set_seq(report.seq);
    from_int32s(report.path, *wire.mutable_path());
  }

  void operator()(const Usage& usage) const {
    v1::Usage& wire = *out.mutable_usage();
    wire.set_reason(encode(usage.reason));
    wire.set_prompt_tokens(usage.prompt_tokens);
    wire.set_cached_tokens(usage.cached_tokens);
    wire.set_completion_tokens(usage.completion_tokens);
    wire.set_passes(usage.passes);
    wire.set_rows(usage.rows);
    wire.set_dead_on_arrival(usage.dead_on_arrival);
    wire.set_compute_us(from_duration(usage.compute));
    wire.set_rows_pruned(usage.rows_pruned);
  }

  void operator()(const Notice& notice) const {
    v1::Notice& wire = *out.mutable_notice();
    wire.set_kind(encode(notice.kind));
    wire.set_retry_after_us(from_duration(notice.retry_after));
  }
};

Status decode_times(const v1::Limits& in, Limits& out) {
  OUTRIDER_ASSIGN_OR_RETURN(out.max_patience,
                            to_duration("opened.limits.max_patience_us", in.max_patience_us()));
  OUTRIDER_ASSIGN_OR_RETURN(out.open_timeout,
                            to_duration("opened.limits.open_timeout_us", in.open_timeout_us()));
  OUTRIDER_ASSIGN_OR_RETURN(out.idle_timeout,
                            to_duration("opened.limits.idle_timeout_us", in.idle_timeout_us()));
  OUTRIDER_ASSIGN_OR_RETURN(out.pass_limit,
                            to_duration("opened.limits.pass_limit_us", in.pass_limit_us()));
  return {};
}

// The year 2200, still within nanoseconds since 1970 in 64 bits.
constexpr std::uint64_t kMaxWallClock = 7'258'118'400'000'000;

Result<PassCosts> decode_costs(const v1::PassCosts& in) {
  constexpr std::uint32_t kMaxExitsPercent = 1000;
  const int points = in.rows_size();
  if (points != in.time_us_size() || points > static_cast<int>(PassCosts::kMaxPoints)) {
    return invalid_argument("opened.pass_costs: " + std::to_string(points) + " rows and " +
                            std::to_string(in.time_us_size()) +
                            " times; expected as many of both, 16 at most");
  }
  if (in.exits_percent() > kMaxExitsPercent) {
    return invalid_argument("opened.pass_costs.exits_percent: " +
                            std::to_string(in.exits_percent()) + "; expected at most 1000");
  }
  PassCosts costs{.points = {}, .exits_percent = in.exits_percent()};
  for (int i = 0; i < points; ++i) {
    if (in.rows(i) == 0 || (i > 0 && in.rows(i) <= in.rows(i - 1)) || in.time_us(i) == 0) {
      return invalid_argument("opened.pass_costs: rows must rise from 1, each with its time");
    }
    costs.points.push_back({in.rows(i), std::chrono::microseconds(in.time_us(i))});
  }
  return costs;
}

Result<ServerMessage> decode(const v1::Opened& in) {
  Opened opened;
  OUTRIDER_ASSIGN_OR_RETURN(opened.session_id, to_name("opened.session_id", in.session_id()));
  OUTRIDER_ASSIGN_OR_RETURN(opened.fingerprint, to_name("opened.fingerprint", in.fingerprint()));
  OUTRIDER_ASSIGN_OR_RETURN(opened.arithmetic_id,
                            to_name("opened.arithmetic_id", in.arithmetic_id()));
  OUTRIDER_ASSIGN_OR_RETURN(opened.model_name, to_name("opened.model_name", in.model_name()));
  OUTRIDER_ASSIGN_OR_RETURN(opened.stop_ids, to_int32s("opened.stop_ids", in.stop_ids()));
  OUTRIDER_ASSIGN_OR_RETURN(opened.exits, to_int32s("opened.exits", in.exits()));
  opened.limits.max_nodes = in.limits().max_nodes();
  opened.limits.max_rows = in.limits().max_rows();
  opened.limits.run_ahead = in.limits().run_ahead();
  opened.limits.max_message_bytes = in.limits().max_message_bytes();
  OUTRIDER_ASSIGN_OR_RETURN(opened.limits.max_positions, to_position("opened.limits.max_positions",
                                                                     in.limits().max_positions()));
  OUTRIDER_ASSIGN_OR_RETURN(opened.limits.vocab_size,
                            to_int32("opened.limits.vocab_size", in.limits().vocab_size()));
  OUTRIDER_RETURN_IF_ERROR(decode_times(in.limits(), opened.limits));
  OUTRIDER_ASSIGN_OR_RETURN(opened.pass_costs, decode_costs(in.pass_costs()));
  OUTRIDER_ASSIGN_OR_RETURN(opened.server_version,
                            to_name("opened.server_version", in.server_version()));
  if (in.wall_clock_us() > kMaxWallClock) {
    return invalid_argument("opened.wall_clock_us is " + std::to_string(in.wall_clock_us()) +
                            ", may be " + std::to_string(kMaxWallClock));
  }
  opened.wall_clock = std::chrono::microseconds(in.wall_clock_us());
  opened.pad_frames = in.pad_frames();
  opened.server_drafts = in.server_drafts();
  OUTRIDER_ASSIGN_OR_RETURN(opened.dtype, to_name("opened.dtype", in.dtype()));
  OUTRIDER_ASSIGN_OR_RETURN(opened.kv_dtype, to_name("opened.kv_dtype", in.kv_dtype()));
  OUTRIDER_ASSIGN_OR_RETURN(opened.level, to_name("opened.level", in.level()));
  return ServerMessage(std::move(opened));
}

Result<ServerMessage> decode(const v1::Progress& in) {
  Progress progress;
  OUTRIDER_ASSIGN_OR_RETURN(progress.done, to_position("progress.done", in.done()));
  OUTRIDER_ASSIGN_OR_RETURN(progress.total, to_position("progress.total", in.total()));
  return ServerMessage(progress);
}

Result<ServerMessage> decode(const v1::Started& in) {
  Started started;
  started.pass = in.pass();
  OUTRIDER_ASSIGN_OR_RETURN(started.position, to_position("started.position", in.position()));
  started.last_id = in.last_id();
  started.left_out.assign(in.left_out().begin(), in.left_out().end());
  return ServerMessage(std::move(started));
}

// field: of the message that they are in.
Result<TokenLogprobs> decode(const v1::TokenLogprobs& in, const std::string& field) {
  if (in.top_size() != in.top_tokens_size()) {
    return invalid_argument(field + " has " + std::to_string(in.top_tokens_size()) +
                            " top_tokens and " + std::to_string(in.top_size()) +
                            " of top, must be as many of each");
  }
  TokenLogprobs logprobs;
  OUTRIDER_ASSIGN_OR_RETURN(logprobs.chosen, to_finite(field + ".chosen", in.chosen()));
  for (int i = 0; i < in.top_size(); ++i) {
    Candidate& one = logprobs.top.emplace_back();
    OUTRIDER_ASSIGN_OR_RETURN(one.token, to_int32(field + ".top_tokens", in.top_tokens(i)));
    OUTRIDER_ASSIGN_OR_RETURN(one.score, to_finite(field + ".top", in.top(i)));
  }
  return logprobs;
}

Result<ServerMessage> decode(const v1::Verdict& in) {
  Verdict verdict;
  verdict.pass = in.pass();
  OUTRIDER_ASSIGN_OR_RETURN(verdict.position, to_position("verdict.position", in.position()));
  if (in.tokens_size() == 0) {
    return invalid_argument("verdict.tokens is empty, must hold at least the next token");
  }
  OUTRIDER_ASSIGN_OR_RETURN(verdict.tokens, to_int32s("verdict.tokens", in.tokens()));
  verdict.rows = in.rows();
  OUTRIDER_ASSIGN_OR_RETURN(verdict.timings.waited,
                            to_duration("verdict.waited_us", in.waited_us()));
  OUTRIDER_ASSIGN_OR_RETURN(verdict.timings.queued,
                            to_duration("verdict.queued_us", in.queued_us()));
  OUTRIDER_ASSIGN_OR_RETURN(verdict.timings.computed,
                            to_duration("verdict.computed_us", in.computed_us()));
  OUTRIDER_ASSIGN_OR_RETURN(verdict.pass_limit,
                            to_duration("verdict.pass_limit_us", in.pass_limit_us()));
  constexpr auto kMaxLoad = static_cast<std::uint32_t>(Load::kFull);
  if (in.load() > kMaxLoad) return codec::out_of_range("verdict.load", in.load(), kMaxLoad);
  verdict.timings.load = static_cast<Load>(in.load());
  verdict.batch_rows = in.batch_rows();
  verdict.server_nodes = in.server_nodes();
  for (const v1::TokenLogprobs& one : in.logprobs()) {
    OUTRIDER_ASSIGN_OR_RETURN(TokenLogprobs logprobs, decode(one, "verdict.logprobs"));
    verdict.logprobs.push_back(std::move(logprobs));
  }
  if (in.digests_size() > in.tokens_size()) {
    return invalid_argument("verdict.digests has " + std::to_string(in.digests_size()) +
                            " entries, at most one for each of " +
                            std::to_string(in.tokens_size()) + " tokens");
  }
  verdict.digests.assign(in.digests().begin(), in.digests().end());
  return ServerMessage(std::move(verdict));
}

Result<ServerMessage> decode(const v1::PromptLogprobs& in) {
  PromptLogprobs scored;
  OUTRIDER_ASSIGN_OR_RETURN(scored.position,
                            to_position("prompt_logprobs.position", in.position()));
  if (in.logprobs_size() == 0) {
    return invalid_argument("prompt_logprobs.logprobs is empty, must hold at least one token's");
  }
  for (const v1::TokenLogprobs& one : in.logprobs()) {
    OUTRIDER_ASSIGN_OR_RETURN(TokenLogprobs logprobs, decode(one, "prompt_logprobs.logprobs"));
    scored.logprobs.push_back(std::move(logprobs));
  }
  return ServerMessage(std::move(scored));
}

Result<ServerMessage> decode(const v1::ExitReport& in) {
  ExitReport report;
  report.pass = in.pass();
  OUTRIDER_ASSIGN_OR_RETURN(report.exit, to_int32("exit_report.exit", in.exit()));
  report.leaf_id = in.leaf_id();
  OUTRIDER_ASSIGN_OR_RETURN(report.next_token, to_int32("exit_report.next_token", in.next_token()));
  OUTRIDER_ASSIGN_OR_RETURN(report.confidence,
                            to_confidence("exit_report.confidence", in.confidence()));
  report.seq = in.seq();
  if (static_cast<std::size_t>(in.path_size()) > kMaxReportPath) {
    return invalid_argument("exit_report.path has " + std::to_string(in.path_size()) +
                            " tokens, at most " + std::to_string(kMaxReportPath));
  }
  OUTRIDER_ASSIGN_OR_RETURN(report.path, to_int32s("exit_report.path", in.path()));
  return ServerMessage(std::move(report));
}

Result<FinishReason> decode(v1::FinishReason reason) {
  switch (reason) {
    case v1::STOP:
      return FinishReason::kStop;
    case v1::LENGTH:
      return FinishReason::kLength;
    case v1::CANCELLED:
      return FinishReason::kCancelled;
    case v1::ERROR:
      return FinishReason::kError;
    default:
      return codec::out_of_range("usage.reason", static_cast<std::uint64_t>(reason), v1::ERROR);
  }
}

Result<ServerMessage> decode(const v1::Usage& in) {
  Usage usage;
  OUTRIDER_ASSIGN_OR_RETURN(usage.reason, decode(in.reason()));
  usage.prompt_tokens = in.prompt_tokens();
  usage.cached_tokens = in.cached_tokens();
  usage.completion_tokens = in.completion_tokens();
  usage.passes = in.passes();
  usage.rows = in.rows();
  usage.dead_on_arrival = in.dead_on_arrival();
  usage.rows_pruned = in.rows_pruned();
  OUTRIDER_ASSIGN_OR_RETURN(usage.compute, to_duration("usage.compute_us", in.compute_us()));
  return ServerMessage(usage);
}

Result<ServerMessage> decode(const v1::Notice& in) {
  Notice notice;
  OUTRIDER_ASSIGN_OR_RETURN(notice.kind, decode(in.kind()));
  OUTRIDER_ASSIGN_OR_RETURN(notice.retry_after,
                            to_duration("notice.retry_after_us", in.retry_after_us()));
  return ServerMessage(notice);
}

}  // namespace

std::string serialize(const ServerMessage& message) {
  v1::ServerMessage wire;
  std::visit(ServerBodyEncoder{wire}, message);
  return wire.SerializeAsString();
}

Result<ServerMessage> parse_server_message(std::string_view bytes) {
  v1::ServerMessage wire;
  if (bytes.size() > kMaxMessageBytes ||
      !wire.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return invalid_argument("these " + std::to_string(bytes.size()) +
                            " bytes are not an outrider.v1.ServerMessage");
  }
  switch (wire.body_case()) {
    case v1::ServerMessage::kOpened:
      return decode(wire.opened());
    case v1::ServerMessage::kProgress:
      return decode(wire.progress());
    case v1::ServerMessage::kStarted:
      return decode(wire.started());
    case v1::ServerMessage::kVerdict:
      return decode(wire.verdict());
    case v1::ServerMessage::kExitReport:
      return decode(wire.exit_report());
    case v1::ServerMessage::kUsage:
      return decode(wire.usage());
    case v1::ServerMessage::kNotice:
      return decode(wire.notice());
    case v1::ServerMessage::kPromptLogprobs:
      return decode(wire.prompt_logprobs());
    case v1::ServerMessage::BODY_NOT_SET:
      break;
  }
  return invalid_argument("a server message without a body that this edge knows");
}

}  // namespace outrider
