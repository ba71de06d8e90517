// The calls beside the stream: Measure and Describe. SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <random>

#include "proto/codec.h"
#include "proto/codec_fields.h"
#include "proto/outrider/v1/outrider.pb.h"

namespace outrider {
namespace {

using codec::from_name;
using codec::to_name;

Status check_size(const char* field, std::size_t bytes) {
  if (bytes <= kMaxMeasuredBytes) return {};
  return invalid_argument(std::string(field) + ": " + std::to_string(bytes) + " bytes; at most " +
                          std::to_string(kMaxMeasuredBytes));
}

// Bytes that no compression on the way shrinks.
std::string padding_of(std::size_t bytes) {
  std::mt19937 random;
  std::string padding(bytes, '\0');
  for (char& byte : padding) byte = static_cast<char>(random());
  return padding;
}

bool fits(const std::map<std::string, std::string>& templates) {
  std::size_t bytes = 0;
  for (const auto& [name, text] : templates) {
    if (from_name(name) != name) return false;
    bytes += name.size() + text.size();
  }
  return templates.size() <= kMaxTemplates && bytes <= kMaxTemplateBytes;
}

Status check_at_most(std::string_view field, std::size_t value, std::size_t most,
                     std::string_view unit) {
  if (value <= most) return {};
  return invalid_argument("describe_reply." + std::string(field) + " has " + std::to_string(value) +
                          " " + std::string(unit) + ", at most " + std::to_string(most));
}

Result<std::map<std::string, std::string>> decode_templates(const v1::DescribeReply& in) {
  OUTRIDER_RETURN_IF_ERROR(check_at_most("templates", static_cast<std::size_t>(in.templates_size()),
                                         kMaxTemplates, "entries"));
  std::map<std::string, std::string> templates;
  std::size_t bytes = 0;
  for (const v1::ChatTemplate& one : in.templates()) {
    OUTRIDER_ASSIGN_OR_RETURN(std::string name,
                              to_name("describe_reply.templates.name", one.name()));
    bytes += name.size() + one.text().size();
    if (!templates.emplace(std::move(name), one.text()).second) {
      return invalid_argument("describe_reply.templates.name: " + printable(one.name()) +
                              " appears twice");
    }
  }
  OUTRIDER_RETURN_IF_ERROR(check_at_most("templates", bytes, kMaxTemplateBytes, "bytes"));
  return templates;
}

Status check_hash(const std::string& hash) {
  const bool is_hex = hash.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (hash.empty() || (hash.size() == 64 && is_hex)) return {};
  return invalid_argument("describe_reply.template_hash is " + printable(hash) +
                          ", must be 64 lower-case hex digits");
}

void encode_sampling(const SamplingDefaults& said, v1::DescribeReply& wire) {
  if (said.empty()) return;
  v1::SamplingDefaults& out = *wire.mutable_sampling_defaults();
  if (said.temperature) out.set_temperature(*said.temperature);
  if (said.top_k) out.set_top_k(static_cast<std::uint32_t>(*said.top_k));
  if (said.top_p) out.set_top_p(*said.top_p);
  if (said.min_p) out.set_min_p(*said.min_p);
}

Result<SamplingDefaults> decode_sampling(const v1::SamplingDefaults& in) {
  constexpr std::uint32_t kMaxTopK = std::numeric_limits<std::int32_t>::max();
  SamplingDefaults said;
  OUTRIDER_RETURN_IF_ERROR(
      check_at_most("sampling_defaults.top_k", in.top_k(), kMaxTopK, "tokens"));
  if (in.has_temperature()) said.temperature = in.temperature();
  if (in.has_top_k()) said.top_k = static_cast<std::int32_t>(in.top_k());
  if (in.has_top_p()) said.top_p = in.top_p();
  if (in.has_min_p()) said.min_p = in.min_p();
  const Status valid = validate(with_defaults({}, said));
  if (!valid.ok()) return valid.with_context("describe_reply.sampling_defaults");
  return said;
}

}  // namespace

std::string serialize_measure_request(std::uint32_t reply_bytes, std::size_t padding_bytes) {
  v1::MeasureRequest request;
  request.set_reply_bytes(reply_bytes);
  request.set_padding(padding_of(padding_bytes));
  return request.SerializeAsString();
}

Result<std::string> measure_reply(std::string_view request) {
  v1::MeasureRequest asked;
  if (!asked.ParseFromArray(request.data(), static_cast<int>(request.size()))) {
    return invalid_argument("MeasureRequest: the bytes are not such a message");
  }
  OUTRIDER_RETURN_IF_ERROR(check_size("MeasureRequest.padding", asked.padding().size()));
  OUTRIDER_RETURN_IF_ERROR(check_size("MeasureRequest.reply_bytes", asked.reply_bytes()));
  v1::MeasureReply reply;
  reply.set_padding(padding_of(asked.reply_bytes()));
  return reply.SerializeAsString();
}

std::string serialize(const TargetDescription& target) {
  v1::DescribeReply wire;
  wire.set_model_name(from_name(target.model_name));
  wire.set_fingerprint(from_name(target.fingerprint));
  wire.set_tokenizer_hash(from_name(target.tokenizer_hash));
  if (fits(target.templates)) {
    for (const auto& [name, text] : target.templates) {
      v1::ChatTemplate& one = *wire.add_templates();
      one.set_name(name);
      one.set_text(text);
    }
  }
  if (target.bos && target.bos->size() <= kMaxTokenBytes) wire.set_bos_token(*target.bos);
  if (target.eos && target.eos->size() <= kMaxTokenBytes) wire.set_eos_token(*target.eos);
  wire.set_chosen_template(from_name(target.chosen));
  wire.set_template_hash(from_name(target.template_hash));
  wire.set_server_version(from_name(target.server_version));
  encode_sampling(target.sampling, wire);
  return wire.SerializeAsString();
}

Status check_describe_request(std::string_view request) {
  v1::DescribeRequest asked;
  if (!asked.ParseFromArray(request.data(), static_cast<int>(request.size()))) {
    return invalid_argument("DescribeRequest: the bytes are not such a message");
  }
  return {};
}

Result<TargetDescription> parse_target_description(std::string_view reply) {
  v1::DescribeReply wire;
  if (reply.size() > kMaxMessageBytes ||
      !wire.ParseFromArray(reply.data(), static_cast<int>(reply.size()))) {
    return invalid_argument("DescribeReply: " + std::to_string(reply.size()) +
                            " bytes that are not such a message");
  }
  TargetDescription target;
  const auto name = [](const char* field, const std::string& value) {
    return to_name("describe_reply." + std::string(field), value);
  };
  OUTRIDER_ASSIGN_OR_RETURN(target.model_name, name("model_name", wire.model_name()));
  OUTRIDER_ASSIGN_OR_RETURN(target.fingerprint, name("fingerprint", wire.fingerprint()));
  OUTRIDER_ASSIGN_OR_RETURN(target.tokenizer_hash, name("tokenizer_hash", wire.tokenizer_hash()));
  OUTRIDER_ASSIGN_OR_RETURN(target.templates, decode_templates(wire));
  OUTRIDER_RETURN_IF_ERROR(
      check_at_most("bos_token", wire.bos_token().size(), kMaxTokenBytes, "bytes"));
  OUTRIDER_RETURN_IF_ERROR(
      check_at_most("eos_token", wire.eos_token().size(), kMaxTokenBytes, "bytes"));
  if (wire.has_bos_token()) target.bos = wire.bos_token();
  if (wire.has_eos_token()) target.eos = wire.eos_token();
  OUTRIDER_ASSIGN_OR_RETURN(target.chosen, name("chosen_template", wire.chosen_template()));
  OUTRIDER_RETURN_IF_ERROR(check_hash(wire.template_hash()));
  target.template_hash = wire.template_hash();
  OUTRIDER_ASSIGN_OR_RETURN(target.server_version, name("server_version", wire.server_version()));
  OUTRIDER_ASSIGN_OR_RETURN(target.sampling, decode_sampling(wire.sampling_defaults()));
  return target;
}

}  // namespace outrider
