// SPDX-License-Identifier: Apache-2.0
#include "proto/otlp/tracing_options.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace outrider {
namespace {

using Protocol = TracingOptions::Protocol;

constexpr char kFlag[] = "--otlp-traces-endpoint";
constexpr char kTracesEndpoint[] = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
constexpr char kEndpoint[] = "OTEL_EXPORTER_OTLP_ENDPOINT";
constexpr std::uint16_t kGrpcPort = 4317;
constexpr std::uint16_t kHttpPort = 4318;

// A value, and the name of what says it.
struct Said {
  const char* by = "";
  std::string value = {};
};

// A variable for traces has priority over the one for all signals.
Said said(const Environment& environment, const char* of_traces, const char* of_all) {
  std::string value = environment(of_traces);
  if (!value.empty()) return {of_traces, std::move(value)};
  return {of_all, environment(of_all)};
}

Status wrong(const Said& said, const std::string& remedy) {
  return invalid_argument(std::string(said.by) + "=" + printable(said.value) + ": " + remedy);
}

Status read_protocol(const Environment& environment, TracingOptions& options) {
  const Said protocol =
      said(environment, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL");
  if (protocol.value.empty() || protocol.value == "grpc") return {};
  if (protocol.value != "http/protobuf") {
    return wrong(protocol, "is no protocol of this program. Remedy: grpc or http/protobuf");
  }
  options.protocol = Protocol::kHttp;
  return {};
}

// http://HOST[:PORT][/PATH], or https. for_all: the path is that of all signals.
Status read_endpoint(const Said& endpoint, bool for_all, TracingOptions& options) {
  constexpr char kRemedy[] =
      "is no endpoint of a collector. Remedy: http://HOST:PORT, or https for TLS";
  std::string_view rest = endpoint.value;
  options.tls = rest.starts_with("https://");
  if (!options.tls && !rest.starts_with("http://")) return wrong(endpoint, kRemedy);
  rest.remove_prefix(options.tls ? 8 : 7);
  const std::size_t slash = rest.find('/');
  std::string authority(rest.substr(0, slash));
  options.path = slash == std::string_view::npos ? "" : rest.substr(slash);
  if (for_all || options.path.empty() || options.path == "/") {
    if (options.path.ends_with('/')) options.path.pop_back();
    options.path += "/v1/traces";
  }
  const std::size_t colon = authority.rfind(':');
  if (colon == std::string::npos || authority.ends_with(']')) {
    const std::uint16_t port = options.protocol == Protocol::kGrpc ? kGrpcPort : kHttpPort;
    authority += ":" + std::to_string(port);
  }
  Result<Address> address = parse_address(authority);
  if (!address.ok()) return wrong(endpoint, kRemedy);
  options.collector = *std::move(address);
  return {};
}

Status read_ratio(const Environment& environment, double& ratio) {
  const Said argument{"OTEL_TRACES_SAMPLER_ARG", environment("OTEL_TRACES_SAMPLER_ARG")};
  if (argument.value.empty()) return {};
  const char* const end = argument.value.data() + argument.value.size();
  const auto [rest, error] = std::from_chars(argument.value.data(), end, ratio);
  if (error == std::errc() && rest == end && ratio >= 0 && ratio <= 1) return {};
  return wrong(argument, "is no share of requests. Remedy: a number from 0 to 1");
}

Status read_sampler(const Environment& environment, Sampler& sampler) {
  const Said name{"OTEL_TRACES_SAMPLER", environment("OTEL_TRACES_SAMPLER")};
  constexpr std::string_view kParent = "parentbased_";
  std::string_view kind = name.value;
  if (kind.empty()) kind = "parentbased_always_on";
  sampler.asks_parent = kind.starts_with(kParent);
  if (sampler.asks_parent) kind.remove_prefix(kParent.size());
  if (kind == "always_on") return {};
  if (kind == "always_off") {
    sampler.ratio = 0;
    return {};
  }
  if (kind == "traceidratio") return read_ratio(environment, sampler.ratio);
  return wrong(name,
               "is no sampler of this program. Remedy: always_on, always_off, traceidratio, or "
               "parentbased_ before one of these");
}

// "name=value,name=value", in which a value may have %XX.
Status read_headers(const Environment& environment, TracingOptions& options) {
  const Said all =
      said(environment, "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS");
  std::string_view rest = all.value;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    const std::size_t equals = one.find('=');
    std::string value;
    bool is_fine = equals != std::string_view::npos && equals > 0;
    for (std::size_t at = equals + 1; is_fine && at < one.size(); ++at) {
      unsigned char byte = static_cast<unsigned char>(one[at]);
      if (byte == '%') {
        const char* const digits = one.data() + at + 1;
        is_fine =
            at + 2 < one.size() && std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2;
        at += 2;
      }
      is_fine = is_fine && byte >= 0x20 && byte <= 0x7e;
      value += static_cast<char>(byte);
    }
    // Its value may be a key, which errors do not show.
    if (!is_fine) {
      return invalid_argument(std::string(all.by) +
                              " has a header that cannot be sent. Remedy: NAME=VALUE,NAME=VALUE "
                              "in printable ASCII, or %XX for other bytes of a value");
    }
    options.headers.emplace_back(one.substr(0, equals), std::move(value));
  }
  return {};
}

}  // namespace

Result<std::optional<TracingOptions>> tracing_options(const std::string& endpoint,
                                                      const std::string& program,
                                                      const std::string& version,
                                                      const Environment& environment) {
  const Said where =
      endpoint.empty() ? said(environment, kTracesEndpoint, kEndpoint) : Said{kFlag, endpoint};
  if (where.value.empty() || environment("OTEL_SDK_DISABLED") == "true") {
    return std::optional<TracingOptions>();
  }
  TracingOptions options;
  OUTRIDER_RETURN_IF_ERROR(read_protocol(environment, options));
  OUTRIDER_RETURN_IF_ERROR(read_endpoint(where, where.by == kEndpoint, options));
  OUTRIDER_RETURN_IF_ERROR(read_sampler(environment, options.sampler));
  OUTRIDER_RETURN_IF_ERROR(read_headers(environment, options));
  options.service_name = environment("OTEL_SERVICE_NAME");
  if (options.service_name.empty()) options.service_name = program;
  options.service_version = version;
  return std::optional(std::move(options));
}

}  // namespace outrider
