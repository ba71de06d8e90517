// SPDX-License-Identifier: Apache-2.0
#include "common/serving/openai/request_span.h"

namespace outrider {

TraceHeaders trace_headers_of(const HttpRequest& request) {
  return {.parent = request.header(kTraceparentHeader), .state = request.header(kTracestateHeader)};
}

TraceSpan request_span(const Trace& trace, const CompletionCall& call, const std::string& model,
                       TimePoint now) {
  const bool is_chat = !call.request.path.ends_with("/v1/completions");
  const std::string operation = is_chat ? "chat" : "text_completion";
  TraceSpan span{.context = trace.context,
                 .parent = trace.parent,
                 .name = operation + " " + model,
                 .kind = TraceSpan::Kind::kServer,
                 .begin = now,
                 .end = now};
  const TextOptions& text = call.params.text;
  span.set("gen_ai.operation.name", operation);
  span.set("gen_ai.provider.name", "outrider");
  span.set("gen_ai.request.model", model);
  span.set("gen_ai.request.temperature", double{text.choice.sampling.temperature});
  if (text.max_tokens >= 0) span.set("gen_ai.request.max_tokens", text.max_tokens);
  span.set("http.request.method", call.request.method);
  span.set("url.path", call.request.path);
  span.set("outrider.request_id", call.request.id);
  span.set("outrider.service_tier", std::string(name_of(text.service_tier)));
  return span;
}

}  // namespace outrider
