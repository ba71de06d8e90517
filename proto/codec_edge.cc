// Edge to server. SPDX-License-Identifier: Apache-2.0
#include "proto/codec.h"
#include "proto/codec_fields.h"
#include "proto/outrider/v1/outrider.pb.h"

namespace outrider {
namespace {

using codec::from_duration;
using codec::from_int32s;
using codec::from_name;
using codec::to_duration;
using codec::to_finite;
using codec::to_int32;
using codec::to_int32s;
using codec::to_name;
using codec::to_position;

void encode(const Policy& policy, v1::Policy& out) {
  out.set_pass_policy(policy.pass_policy == PassPolicy::kEager ? v1::EAGER : v1::ON_REQUEST);
  out.set_patience_us(from_duration(policy.patience));
  out.set_wants_exits(policy.wants_exits);
  out.set_row_limit(policy.row_limit);
}

void encode(const SamplingParams& sampling, v1::Sampling& out) {
  out.set_temperature(sampling.temperature);
  out.set_top_k(static_cast<std::uint32_t>(sampling.top_k));
  if (sampling.top_p != 1.0f) out.set_top_p(sampling.top_p);
  out.set_min_p(sampling.min_p);
}

void encode(const ChoiceSettings& settings, v1::ChoiceSettings& out) {
  out.set_presence_penalty(settings.presence_penalty);
  out.set_frequency_penalty(settings.frequency_penalty);
  if (settings.repetition_penalty != 1) out.set_repetition_penalty(settings.repetition_penalty);
  for (const LogitBias& one : settings.logit_bias) {
    out.add_biased_tokens(static_cast<std::uint32_t>(one.token));
    out.add_biases(one.bias);
  }
  out.set_min_tokens(static_cast<std::uint64_t>(settings.min_tokens));
  for (const std::vector<TokenId>& word : settings.bad_words) {
    from_int32s(word, *out.add_bad_words()->mutable_ids());
  }
  if (!settings.constraint.asks()) return;
  out.mutable_constraint()->set_kind(
      static_cast<v1::Constraint::Kind>(settings.constraint.spec.kind));
  out.mutable_constraint()->set_text(settings.constraint.spec.text);
}

void encode(const Open& open, v1::Open& out) {
  out.set_protocol_version(open.protocol_version);
  out.set_noise_version(open.noise_version);
  out.set_tokenizer_hash(from_name(open.tokenizer_hash));
  encode(open.sampling, *out.mutable_sampling());
  out.set_seed(open.seed);
  from_int32s(open.prefix, *out.mutable_prefix());
  out.set_end_position(static_cast<std::uint64_t>(open.end_position));
  encode(open.policy, *out.mutable_policy());
  from_int32s(open.stop_ids, *out.mutable_stop_ids());
  out.set_expected_fingerprint(from_name(open.expected_fingerprint));
  out.set_expected_arithmetic_id(from_name(open.expected_arithmetic_id));
  out.set_replaced_session(from_name(open.replaced_session));
  out.set_session_key(from_name(open.session_key));
  out.set_prefix_length(static_cast<std::uint64_t>(open.prefix_length));
  out.set_prefix_hash(from_name(open.prefix_hash));
  out.set_accept_other_arithmetic(open.accept_other_arithmetic);
  out.set_pad_frames(open.pad_frames);
  out.set_template_hash(from_name(open.template_hash));
  out.set_ignore_target_stops(open.ignore_target_stops);
  out.set_service_tier(static_cast<v1::ServiceTier>(open.service_tier));
  out.set_accepts_server_nodes(open.accepts_server_nodes);
  if (!open.settings.change_nothing()) encode(open.settings, *out.mutable_settings());
  out.set_answer_begin(static_cast<std::uint64_t>(open.answer_begin));
  if (open.top_logprobs) out.set_top_logprobs(*open.top_logprobs);
  out.set_prompt_logprobs(open.prompt_logprobs);
  out.set_wants_digests(open.wants_digests);
  out.set_level(from_name(open.level));
}

void encode(const Grow& grow, v1::Grow& out) {
  out.set_first_id(grow.first_id);
  out.set_anchor_position(static_cast<std::uint64_t>(grow.anchor_position));
  std::string& confidence = *out.mutable_confidence();
  for (const GrowNode& node : grow.nodes) {
    out.add_tokens(static_cast<std::uint32_t>(node.token));
    out.add_parents(node.parent);
    confidence.push_back(static_cast<char>(node.confidence));
  }
}

Result<Policy> decode(const v1::Policy& in) {
  Policy policy;
  if (in.pass_policy() != v1::ON_REQUEST && in.pass_policy() != v1::EAGER) {
    return invalid_argument("policy.pass_policy is " + std::to_string(in.pass_policy()) +
                            ", must be 0 (on request) or 1 (eager)");
  }
  policy.pass_policy = in.pass_policy() == v1::EAGER ? PassPolicy::kEager : PassPolicy::kOnRequest;
  OUTRIDER_ASSIGN_OR_RETURN(policy.patience, to_duration("policy.patience_us", in.patience_us()));
  policy.wants_exits = in.wants_exits();
  policy.row_limit = in.row_limit();
  return policy;
}

Result<SamplingParams> decode(const v1::Sampling& in) {
  SamplingParams sampling;
  OUTRIDER_ASSIGN_OR_RETURN(sampling.temperature,
                            to_finite("open.sampling.temperature", in.temperature()));
  OUTRIDER_ASSIGN_OR_RETURN(sampling.top_k, to_int32("open.sampling.top_k", in.top_k()));
  if (in.has_top_p()) {
    OUTRIDER_ASSIGN_OR_RETURN(sampling.top_p, to_finite("open.sampling.top_p", in.top_p()));
  }
  OUTRIDER_ASSIGN_OR_RETURN(sampling.min_p, to_finite("open.sampling.min_p", in.min_p()));
  return sampling;
}

Result<std::vector<LogitBias>> decode_biases(const v1::ChoiceSettings& in) {
  if (in.biases_size() != in.biased_tokens_size()) {
    return invalid_argument("open.settings has " + std::to_string(in.biased_tokens_size()) +
                            " biased_tokens and " + std::to_string(in.biases_size()) +
                            " biases, must be as many of each");
  }
  std::vector<LogitBias> biases;
  for (int i = 0; i < in.biases_size(); ++i) {
    LogitBias& one = biases.emplace_back();
    OUTRIDER_ASSIGN_OR_RETURN(one.token,
                              to_int32("open.settings.biased_tokens", in.biased_tokens(i)));
    OUTRIDER_ASSIGN_OR_RETURN(one.bias, to_finite("open.settings.biases", in.biases(i)));
  }
  return biases;
}

Result<ChoiceSettings> decode(const v1::ChoiceSettings& in) {
  ChoiceSettings settings;
  OUTRIDER_ASSIGN_OR_RETURN(settings.presence_penalty,
                            to_finite("open.settings.presence_penalty", in.presence_penalty()));
  OUTRIDER_ASSIGN_OR_RETURN(settings.frequency_penalty,
                            to_finite("open.settings.frequency_penalty", in.frequency_penalty()));
  if (in.has_repetition_penalty()) {
    OUTRIDER_ASSIGN_OR_RETURN(
        settings.repetition_penalty,
        to_finite("open.settings.repetition_penalty", in.repetition_penalty()));
  }
  OUTRIDER_ASSIGN_OR_RETURN(settings.logit_bias, decode_biases(in));
  OUTRIDER_ASSIGN_OR_RETURN(settings.min_tokens,
                            to_position("open.settings.min_tokens", in.min_tokens()));
  for (const v1::Prefix& word : in.bad_words()) {
    OUTRIDER_ASSIGN_OR_RETURN(std::vector<TokenId> ids,
                              to_int32s("open.settings.bad_words", word.ids()));
    settings.bad_words.push_back(std::move(ids));
  }
  if (!v1::Constraint::Kind_IsValid(in.constraint().kind())) {
    return invalid_argument("open.settings.constraint.kind: " +
                            std::to_string(in.constraint().kind()) + "; expected 0 to 5");
  }
  settings.constraint.spec = {.kind = static_cast<ConstraintKind>(in.constraint().kind()),
                              .text = in.constraint().text()};
  return settings;
}

Result<Open> decode(const v1::Open& in) {
  Open open;
  open.protocol_version = in.protocol_version();
  open.noise_version = in.noise_version();
  OUTRIDER_ASSIGN_OR_RETURN(open.tokenizer_hash,
                            to_name("open.tokenizer_hash", in.tokenizer_hash()));
  OUTRIDER_ASSIGN_OR_RETURN(open.sampling, decode(in.sampling()));
  open.seed = in.seed();
  OUTRIDER_ASSIGN_OR_RETURN(open.prefix, to_int32s("open.prefix", in.prefix()));
  OUTRIDER_ASSIGN_OR_RETURN(open.end_position, to_position("open.end_position", in.end_position()));
  OUTRIDER_ASSIGN_OR_RETURN(open.policy, decode(in.policy()));
  OUTRIDER_ASSIGN_OR_RETURN(open.stop_ids, to_int32s("open.stop_ids", in.stop_ids()));
  OUTRIDER_ASSIGN_OR_RETURN(open.expected_fingerprint,
                            to_name("open.expected_fingerprint", in.expected_fingerprint()));
  OUTRIDER_ASSIGN_OR_RETURN(open.expected_arithmetic_id,
                            to_name("open.expected_arithmetic_id", in.expected_arithmetic_id()));
  OUTRIDER_ASSIGN_OR_RETURN(open.replaced_session,
                            to_name("open.replaced_session", in.replaced_session()));
  OUTRIDER_ASSIGN_OR_RETURN(open.session_key, to_name("open.session_key", in.session_key()));
  OUTRIDER_ASSIGN_OR_RETURN(open.prefix_length,
                            to_position("open.prefix_length", in.prefix_length()));
  OUTRIDER_ASSIGN_OR_RETURN(open.prefix_hash, to_name("open.prefix_hash", in.prefix_hash()));
  open.accept_other_arithmetic = in.accept_other_arithmetic();
  open.pad_frames = in.pad_frames();
  OUTRIDER_ASSIGN_OR_RETURN(open.template_hash, to_name("open.template_hash", in.template_hash()));
  open.ignore_target_stops = in.ignore_target_stops();
  if (!v1::ServiceTier_IsValid(in.service_tier())) {
    return invalid_argument("open.service_tier: " + std::to_string(in.service_tier()) +
                            "; expected 0 (default), 1 (priority) or 2 (flex)");
  }
  open.service_tier = static_cast<ServiceTier>(in.service_tier());
  open.accepts_server_nodes = in.accepts_server_nodes();
  OUTRIDER_ASSIGN_OR_RETURN(open.settings, decode(in.settings()));
  OUTRIDER_ASSIGN_OR_RETURN(open.answer_begin, to_position("open.answer_begin", in.answer_begin()));
  if (in.has_top_logprobs()) open.top_logprobs = in.top_logprobs();
  open.prompt_logprobs = in.prompt_logprobs();
  open.wants_digests = in.wants_digests();
  OUTRIDER_ASSIGN_OR_RETURN(open.level, to_name("open.level", in.level()));
  return open;
}

Result<Prefix> decode(const v1::Prefix& in) {
  Prefix prefix;
  OUTRIDER_ASSIGN_OR_RETURN(prefix.ids, to_int32s("prefix.ids", in.ids()));
  return prefix;
}

Result<Grow> decode(const v1::Grow& in) {
  Grow grow;
  grow.first_id = in.first_id();
  OUTRIDER_ASSIGN_OR_RETURN(grow.anchor_position,
                            to_position("grow.anchor_position", in.anchor_position()));
  const auto count = static_cast<std::size_t>(in.tokens_size());
  if (count > kMaxNodesPerGrow) {
    return invalid_argument("grow.tokens has " + std::to_string(count) + " entries, at most " +
                            std::to_string(kMaxNodesPerGrow));
  }
  if (static_cast<std::size_t>(in.parents_size()) != count || in.confidence().size() != count) {
    return invalid_argument("grow has " + std::to_string(count) + " tokens, " +
                            std::to_string(in.parents_size()) + " parents and " +
                            std::to_string(in.confidence().size()) +
                            " bytes of confidence, must be as many of each");
  }
  grow.nodes.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const int index = static_cast<int>(i);
    OUTRIDER_ASSIGN_OR_RETURN(const TokenId token, to_int32("grow.tokens", in.tokens(index)));
    grow.nodes.push_back({token, in.parents(index), static_cast<std::uint8_t>(in.confidence()[i])});
  }
  return grow;
}

using Body = decltype(EdgeMessage::body);

template <typename Wire>
Result<Body> decode_as_body(const Wire& wire) {
  auto decoded = decode(wire);
  if (!decoded.ok()) return decoded.status();
  return Body(*std::move(decoded));
}

Result<Body> decode_body(const v1::EdgeMessage& in) {
  switch (in.body_case()) {
    case v1::EdgeMessage::kOpen:
      return decode_as_body(in.open());
    case v1::EdgeMessage::kGrow:
      return decode_as_body(in.grow());
    case v1::EdgeMessage::kPolicy:
      return decode_as_body(in.policy());
    case v1::EdgeMessage::kCancel:
      return Body(Cancel{});
    case v1::EdgeMessage::kPrefix:
      return decode_as_body(in.prefix());
    case v1::EdgeMessage::BODY_NOT_SET:
      break;
  }
  return Body(AckOnly{});
}

struct EdgeBodyEncoder {
  v1::EdgeMessage& out;
  void operator()(const AckOnly&) const {}
  void operator()(const Open& open) const { encode(open, *out.mutable_open()); }
  void operator()(const Grow& grow) const { encode(grow, *out.mutable_grow()); }
  void operator()(const Policy& policy) const { encode(policy, *out.mutable_policy()); }
  void operator()(const Cancel&) const { out.mutable_cancel(); }
  void operator()(const Prefix& prefix) const {
    from_int32s(prefix.ids, *out.mutable_prefix()->mutable_ids());
  }
};

}  // namespace

std::string serialize(const EdgeMessage& message) {
  v1::EdgeMessage wire;
  wire.set_acked_position(static_cast<std::uint64_t>(message.acked_position));
  wire.set_acked_reports(message.acked_reports);
  std::visit(EdgeBodyEncoder{wire}, message.body);
  return wire.SerializeAsString();
}

Result<EdgeMessage> parse_edge_message(std::string_view bytes) {
  v1::EdgeMessage wire;
  if (bytes.size() > kMaxMessageBytes ||
      !wire.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return invalid_argument("these " + std::to_string(bytes.size()) +
                            " bytes are not an outrider.v1.EdgeMessage");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const Position acked_position,
                            to_position("acked_position", wire.acked_position()));
  OUTRIDER_ASSIGN_OR_RETURN(Body body, decode_body(wire));
  return EdgeMessage{acked_position, wire.acked_reports(), std::move(body)};
}

}  // namespace outrider
