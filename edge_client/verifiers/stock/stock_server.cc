// SPDX-License-Identifier: Apache-2.0
#include "edge_client/verifiers/stock/stock_server.h"

#include <utility>

namespace outrider {
namespace {

constexpr char kModels[] = "/v1/models";

// The words of an error as OpenAI's servers, FastAPI and proxies write them; empty: none.
std::string words_of(const std::string& body) {
  const Result<Json> json = parse_json(body, "error");
  if (!json.ok()) return body;
  const Json* said = &*json;
  if (const Json* error = member(said, "error")) said = error;
  for (const char* key : {"message", "detail"}) {
    const Json* words = member(said, key);
    if (words != nullptr && words->is_string()) return words->get<std::string>();
  }
  return said->is_string() ? said->get<std::string>() : body;
}

std::string remedy_of(const std::string& words, unsigned status) {
  if (words.find("logits_all") != std::string::npos) {
    return ". Remedy: start the server with --logits_all true";
  }
  if (words.find("context") != std::string::npos) {
    return ". Remedy: a shorter prompt, -c or -n, or a server with a larger context";
  }
  if (status == 401 || status == 403) return ". Remedy: --token-file with the server's key";
  if (status == 404) return ". Remedy: --server-api as the server is, or --server-model";
  return {};
}

Result<HttpCallerOptions> http_options(const StockOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const TlsTexts texts, read_tls_texts(options.remote));
  HttpCallerOptions http{.server = options.remote.server};
  if (!options.remote.tls_ca.empty()) {
    http.tls = HttpCallerTls{texts.authorities, texts.certificates, texts.key};
  }
  return http;
}

}  // namespace

const Json* member(const Json* json, const char* key) {
  if (json == nullptr || !json->is_object()) return nullptr;
  const auto found = json->find(key);
  return found == json->end() || found->is_null() ? nullptr : &*found;
}

const Json* element(const Json* json, std::size_t index) {
  if (json == nullptr || !json->is_array() || index >= json->size()) return nullptr;
  const Json& found = (*json)[index];
  return found.is_null() ? nullptr : &found;
}

const Json* first_choice(const Json& reply) {
  return element(member(&reply, "choices"), 0);
}

std::optional<std::vector<std::string>> texts_of(const Json* json) {
  if (json == nullptr || !json->is_array()) return std::nullopt;
  std::vector<std::string> texts;
  for (const Json& one : *json) {
    if (!one.is_string()) return std::nullopt;
    texts.push_back(one.get<std::string>());
  }
  return texts;
}

StockServer::StockServer(const StockOptions& options, HttpCallerOptions http)
    : options_(options),
      name_(std::string("the ") + name_of(options.api) + " server at " +
            options.remote.server.to_string()),
      http_(std::move(http)),
      model_(options.model) {}

Status StockServer::lacks(const std::string& what) const {
  return internal_error(name_ + " answers without " + what +
                        ". Remedy: --server-api as the server is, and a release of it that gives "
                        "log-probabilities of prompts");
}

Status StockServer::reads_otherwise(const std::string& why) const {
  return failed_precondition(name_ + " has another tokenizer than this edge: " + why +
                             ". Remedy: --model or --tokenizer of its model's family");
}

Status StockServer::refusal(const HttpReply& reply) {
  const std::string words = words_of(reply.body);
  const std::string message = name_ + " answers with the status " + std::to_string(reply.status) +
                              ": " + printable(words) + remedy_of(words, reply.status);
  switch (reply.status) {
    case 401:
      return unauthenticated(message);
    case 403:
      return permission_denied(message);
    case 404:
      return not_found(message);
    case 408:
    case 502:
    case 503:
    case 504:
      return unavailable(message);
    case 429:
      retry_after_ = reply.retry_after;
      return resource_exhausted(message);
    default:
      return reply.status / 100 == 4 ? failed_precondition(message) : internal_error(message);
  }
}

Result<Json> StockServer::ask(OutgoingRequest request, const std::stop_token& stop) {
  request.timeout = options_.timeout;
  if (!options_.remote.token.empty()) {
    request.headers.emplace_back("authorization", "Bearer " + options_.remote.token);
  }
  Result<HttpReply> reply = http_.call(request, stop);
  if (!reply.ok()) {
    const Status& why = reply.status();
    return why.code() == StatusCode::kCancelled ? why : why.with_context(name_);
  }
  if (reply->status / 100 != 2) return refusal(*reply);
  Result<Json> json = parse_json(reply->body, "its reply");
  if (json.ok()) return json;
  return internal_error(name_ + " does not answer in JSON: " + json.status().message());
}

Result<Json> StockServer::find_model(const std::stop_token& stop) {
  OUTRIDER_ASSIGN_OR_RETURN(const Json reply, ask({.path = kModels}, stop));
  std::string names;
  const Json* const models = member(&reply, "data");
  for (std::size_t i = 0; models != nullptr && i < models->size(); ++i) {
    const Json* const model = element(models, i);
    const Json* const id = member(model, "id");
    if (id == nullptr || !id->is_string()) continue;
    const auto text = id->get<std::string>();
    if (options_.model.empty() || options_.model == text) {
      model_ = text;
      return *model;
    }
    names += (names.empty() ? "" : ", ") + printable(text);
  }
  if (names.empty()) return lacks("models in /v1/models");
  return not_found(name_ + " has no model " + printable(options_.model) +
                   ". Remedy: --server-model with one of " + names);
}

Result<Json> StockServer::post(const std::string& path, Json body, const std::stop_token& stop) {
  // A name that the user did not give is left out where that shows which model answers.
  if (options_.api == ServerApi::kVllm || !options_.model.empty()) body["model"] = model_;
  std::string text = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  OUTRIDER_ASSIGN_OR_RETURN(Json reply, ask({.path = path, .body = std::move(text)}, stop));
  const Json* const model = member(&reply, "model");
  if (model == nullptr || !model->is_string()) return reply;
  const auto answering = model->get<std::string>();
  if (answering_.empty()) answering_ = answering;
  if (answering == answering_) return reply;
  return failed_precondition(name_ + " answers by the model " + printable(answering) +
                             ", and began with " + printable(answering_) +
                             ". Remedy: ask again, for an answer by one model");
}

Result<std::unique_ptr<StockServer>> make_stock_server(const StockOptions& options,
                                                       const Tokenizer& tokenizer) {
  OUTRIDER_ASSIGN_OR_RETURN(HttpCallerOptions http, http_options(options));
  OUTRIDER_CHECK(options.api != ServerApi::kOutrider);
  return options.api == ServerApi::kVllm
             ? make_vllm_server(options, std::move(http), tokenizer)
             : make_llama_cpp_server(options, std::move(http), tokenizer);
}

bool answers(const StockOptions& options, Duration patience) {
  Result<HttpCallerOptions> http = http_options(options);
  if (!http.ok()) return false;
  return HttpCaller(*std::move(http)).call({.path = kModels, .timeout = patience}, {}).ok();
}

}  // namespace outrider
