// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/openai/completion_server.h"

#include <string_view>
#include <utility>

#include "cloud_server/openai/completion_stream.h"
#include "cloud_server/openai/refusal.h"
#include "common/openai/routes.h"

namespace outrider {
namespace {

constexpr std::string_view kBearer = "Bearer ";

}  // namespace

bool CompletionServer::handle(const HttpRequest& request,
                              const std::shared_ptr<HttpExchange>& exchange) {
  const bool completes = request.path == kChatRoute || request.path == kCompletionRoute;
  const bool tokenizes = request.path == kTokenizeRoute && request.method == "POST";
  const bool detokenizes = request.path == kDetokenizeRoute && request.method == "POST";
  const bool lists = request.path == kModelsRoute && request.method == "GET";
  if (!completes && !tokenizes && !detokenizes && !lists) return false;
  const std::string request_id = request_id_of(request);
  exchange->add_header("X-Request-Id", request_id);
  const std::string who = name_in_log(request.peer, request_id);
  const Result<std::shared_ptr<const TenantKey>> key = key_of(request);
  if (!key.ok()) {
    refuse(*exchange, who, key.status());
  } else if (tokenizes) {
    exchange->respond(tokenize_page(tokenizer_, request));
  } else if (detokenizes) {
    exchange->respond(detokenize_page(tokenizer_, request));
  } else if (lists) {
    exchange->respond(models_page(options_.model_name));
  } else if (const Status status = complete(request, exchange, {*key, request_id, who});
             !status.ok()) {
    refuse(*exchange, who, status);
  }
  return true;
}

void CompletionServer::refuse(HttpExchange& exchange, const std::string& who,
                              const Status& status) {
  faults_.refuse(who, status);
  exchange.respond(refusal_of(status, WrongKeys::kOneIn));
}

Result<std::shared_ptr<const TenantKey>> CompletionServer::key_of(
    const HttpRequest& request) const {
  if (options_.authenticator == nullptr) return std::shared_ptr<const TenantKey>();
  const std::string_view value = request.header("authorization");
  const std::string_view key = value.starts_with(kBearer) ? value.substr(kBearer.size()) : "";
  return options_.authenticator->find(key, request.peer, Front::kOpenAi);
}

Status CompletionServer::complete(const HttpRequest& request,
                                  const std::shared_ptr<HttpExchange>& exchange,
                                  const Asker& asker) {
  if (request.method != "POST") return invalid_argument(request.path + " takes POST");
  OUTRIDER_RETURN_IF_ERROR(check_origin(request));
  const bool is_chat = request.path == kChatRoute;
  OUTRIDER_ASSIGN_OR_RETURN(const CompletionRequest asked,
                            parse_completion(request.body, is_chat, {}));
  OUTRIDER_ASSIGN_OR_RETURN(EncodedPrompt prompt, encode_request(tokenizer_, asked, ""));
  OUTRIDER_ASSIGN_OR_RETURN(PlainAnswer answer,
                            PlainAnswer::begin(tokenizer_, std::move(prompt), asked.params,
                                               options_.context, options_.tokenizer_hash));
  const std::string tenant = asker.key == nullptr ? "" : asker.key->tenant;
  const auto stream = std::make_shared<CompletionStream>(
      engine_, faults_, std::move(answer),
      CompletionStream::Client{.name = new_answer(options_.model_name, is_chat),
                               .who = asker.who,
                               .key = asker.key,
                               .stream = asked.stream,
                               .stream_usage = asked.stream_usage,
                               .bytes_up = request.body.size(),
                               .exchange = exchange});
  const AdmissionResult admitted =
      stream->begin(options_.tenants, {.tenant = tenant,
                                       .group = tenant.empty() ? request.peer : tenant,
                                       .request_id = asker.request_id});
  if (!admitted.status.ok()) {
    faults_.refuse(asker.who, admitted.status);
    exchange->respond(refusal_of(admitted.status, admitted.retry_after));
  }
  return {};
}

}  // namespace outrider
