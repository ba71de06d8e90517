// SPDX-License-Identifier: Apache-2.0
#include "proto/otlp/otlp_sender.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>

#include <chrono>
#include <cstdlib>
#include <utility>

#include "common/serving/http/client.h"
#include "proto/byte_buffer.h"
#include "proto/grpc_status.h"
#include "proto/otlp/trace.pb.h"

namespace outrider {
namespace {

constexpr char kExport[] = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
constexpr Duration kTimeout = std::chrono::seconds(10);  // OpenTelemetry's own

using Attributes = google::protobuf::RepeatedPtrField<otlp::KeyValue>;

struct SetValue {
  otlp::AnyValue& value;
  void operator()(const std::string& text) { value.set_string_value(text); }
  void operator()(std::int64_t number) { value.set_int_value(number); }
  void operator()(double number) { value.set_double_value(number); }
  void operator()(bool yes) { value.set_bool_value(yes); }
  void operator()(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      value.mutable_array_value()->add_values()->set_string_value(text);
    }
  }
};

void set(Attributes& to, const SpanAttributes& from) {
  for (const auto& [key, value] : from) {
    otlp::KeyValue& one = *to.Add();
    one.set_key(key);
    std::visit(SetValue{*one.mutable_value()}, value);
  }
}

// Converts times of this process's clock to nanoseconds since 1970, by both clocks' times now.
class WallTimes final {
 public:
  std::uint64_t of(TimePoint time) const {
    return static_cast<std::uint64_t>((wall_ + (time - now_)).count());
  }

 private:
  const TimePoint now_ = SystemClock().now();
  const Duration wall_ =
      std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch());
};

template <std::size_t Size>
std::string bytes_of(const std::array<std::uint8_t, Size>& id) {
  return {id.begin(), id.end()};
}

void fill(otlp::Span& to, const TraceSpan& from, const WallTimes& times) {
  constexpr int kError = 2;
  to.set_trace_id(bytes_of(from.context.trace));
  to.set_span_id(bytes_of(from.context.span));
  to.set_trace_state(from.context.state);
  if (from.parent != SpanId{}) to.set_parent_span_id(bytes_of(from.parent));
  to.set_name(from.name);
  to.set_kind(static_cast<int>(from.kind));
  to.set_start_time_unix_nano(times.of(from.begin));
  to.set_end_time_unix_nano(times.of(from.end));
  to.set_flags(1);
  set(*to.mutable_attributes(), from.attributes);
  for (const TraceSpan::Event& event : from.events) {
    otlp::Event& one = *to.add_events();
    one.set_name(event.name);
    one.set_time_unix_nano(times.of(event.at));
    set(*one.mutable_attributes(), event.attributes);
  }
  if (from.error.empty()) return;
  to.mutable_status()->set_code(kError);
  to.mutable_status()->set_message(from.error);
}

// How many spans were rejected.
Result<std::uint64_t> read_reply(const std::string& bytes) {
  otlp::ExportReply reply;
  if (!reply.ParseFromString(bytes)) {
    return unavailable("its reply is no ExportTraceServiceResponse");
  }
  const std::int64_t rejected = reply.partial_success().rejected_spans();
  return static_cast<std::uint64_t>(std::max<std::int64_t>(rejected, 0));
}

// A channel connects at the first export, and again by itself.
class GrpcSender final {
 public:
  explicit GrpcSender(const TracingOptions& options)
      : options_(options),
        stub_(grpc::CreateChannel(
            options.collector.to_string(),
            options.tls ? grpc::SslCredentials({}) : grpc::InsecureChannelCredentials())) {}

  Result<std::uint64_t> send(const std::vector<TraceSpan>& spans, const std::stop_token& stop) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::duration_cast<std::chrono::microseconds>(kTimeout));
    for (const auto& [name, value] : options_.headers) context.AddMetadata(name, value);
    grpc::ByteBuffer reply;
    grpc::Status status;
    grpc::CompletionQueue queue;  // this thread's own: nothing crosses to another
    const auto pending = stub_.PrepareUnaryCall(
        &context, kExport, to_buffer(serialize_spans(spans, options_)), &queue);
    const std::stop_callback cut(stop, [&context] { context.TryCancel(); });
    pending->StartCall();
    pending->Finish(&reply, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    if (!queue.Next(&tag, &ok)) return internal_error("gRPC ended its queue before the call");
    if (!status.ok()) return from_grpc(status);
    return read_reply(to_bytes(reply));
  }

 private:
  const TracingOptions options_;
  grpc::GenericStub stub_;
};

}  // namespace

std::string serialize_spans(const std::vector<TraceSpan>& spans, const TracingOptions& options) {
  const WallTimes times;
  otlp::ExportRequest request;
  otlp::ResourceSpans& all = *request.add_resource_spans();
  set(*all.mutable_resource()->mutable_attributes(),
      {{"service.name", options.service_name}, {"service.version", options.service_version}});
  otlp::ScopeSpans& scope = *all.add_scope_spans();
  scope.mutable_scope()->set_name("outrider");
  scope.mutable_scope()->set_version(options.service_version);
  for (const TraceSpan& span : spans) fill(*scope.add_spans(), span, times);
  return request.SerializeAsString();
}

Tracer::Send otlp_sender(const TracingOptions& options) {
  if (options.protocol == TracingOptions::Protocol::kGrpc) {
    return [sender = std::make_shared<GrpcSender>(options)](const std::vector<TraceSpan>& spans,
                                                            const std::stop_token& stop) {
      return sender->send(spans, stop);
    };
  }
  return [options](const std::vector<TraceSpan>& spans,
                   const std::stop_token& stop) -> Result<std::uint64_t> {
    HttpCaller caller({.server = options.collector,
                       .tls = options.tls ? std::optional(HttpCallerTls()) : std::nullopt});
    OutgoingRequest request{.path = options.path,
                            .content_type = "application/x-protobuf",
                            .headers = options.headers,
                            .body = serialize_spans(spans, options),
                            .timeout = kTimeout};
    request.headers.emplace_back("connection", "close");
    OUTRIDER_ASSIGN_OR_RETURN(const HttpReply reply, caller.call(request, stop));
    if (reply.status / 100 == 2) return read_reply(reply.body);
    return unavailable("it answers with the status " + std::to_string(reply.status));
  };
}

Result<std::unique_ptr<Tracer>> start_tracing(const std::string& endpoint,
                                              const std::string& program,
                                              const std::string& version, Tracer::Log log) {
  const Environment environment = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<TracingOptions> options,
                            tracing_options(endpoint, program, version, environment));
  if (!options) return std::unique_ptr<Tracer>();
  return std::make_unique<Tracer>(options->sampler, otlp_sender(*options), std::move(log));
}

}  // namespace outrider
