// SPDX-License-Identifier: Apache-2.0
#include "bench/load/load_clients.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "bench/edges/bench_edge.h"
#include "common/base/json.h"
#include "edge_client/verifiers/remote.h"

namespace outrider {
namespace {

constexpr Duration kPatience = std::chrono::minutes(2);  // with a server that says nothing
constexpr std::size_t kMaxEvent = 1 << 20;

// The error for which an HTTP status stands, with OpenAI's error message if the body has one.
Status error_of(const HttpReply& reply, const std::string& page) {
  std::string message = page + ": HTTP " + std::to_string(reply.status);
  const Json json = Json::parse(reply.body, nullptr, false);
  const Json::json_pointer path("/error/message");
  if (json.is_object() && json.contains(path) && json[path].is_string()) {
    message += ": " + printable(json[path].get<std::string>());
  }
  switch (reply.status) {
    case 400:
      return invalid_argument(std::move(message));
    case 401:
      return unauthenticated(std::move(message));
    case 403:
      return permission_denied(std::move(message));
    case 404:
      return not_found(std::move(message));
    case 429:
      return resource_exhausted(std::move(message));
    case 501:
      return unimplemented(std::move(message));
    case 503:
      return unavailable(std::move(message));
    default:
      return internal_error(std::move(message));
  }
}

// Reads server-sent events, however they are cut: hands the data of each complete one over, and
// keeps the rest.
class EventReader final {
 public:
  Status take(std::string_view bytes, const std::function<Status(std::string_view)>& on_data) {
    for (const char c : bytes) {
      if (c != '\r') rest_ += c;
    }
    std::size_t begin = 0;
    for (std::size_t end; (end = rest_.find("\n\n", begin)) != std::string::npos; begin = end + 2) {
      constexpr std::string_view kData = "data: ";
      const std::string_view event = std::string_view(rest_).substr(begin, end - begin);
      if (event.starts_with(kData)) OUTRIDER_RETURN_IF_ERROR(on_data(event.substr(kData.size())));
    }
    rest_.erase(0, begin);
    if (rest_.size() <= kMaxEvent) return {};
    return resource_exhausted("an event of the stream exceeds 1 MiB");
  }

 private:
  std::string rest_;
};

class EdgeClient final : public LoadClient {
 public:
  EdgeClient(const EdgeClientSetup& setup, std::unique_ptr<BenchEdge> edge)
      : setup_(setup),
        edge_(std::move(edge)),
        verifier_({.server = setup.server, .token = setup.key}) {}

  Result<ClientAnswer> answer(const LoadRequest& request) override {
    BenchRequest one;
    one.name = setup_.server.to_string();
    one.prompt = request.prompt.ids;
    one.sampling.temperature = static_cast<float>(setup_.answers.temperature);
    one.seed = request.seed;
    one.max_tokens = setup_.answers.max_tokens;
    one.ignore_eos = setup_.answers.ignore_eos;
    one.draft_length = setup_.draft.empty() ? 0 : setup_.gamma;
    one.strategy = setup_.strategy;
    OUTRIDER_ASSIGN_OR_RETURN(const BenchAnswer got, edge_->decode(verifier_, one));
    ClientAnswer answer{.prompt_tokens = got.stats.prompt_tokens, .tokens = got.ids.size()};
    for (std::size_t i = 0; i < got.stats.chunk_at.size(); ++i) {
      answer.arrivals.push_back({got.stats.chunk_at[i], got.stats.chunk_tokens[i]});
    }
    return answer;
  }

 private:
  const EdgeClientSetup setup_;
  const std::unique_ptr<BenchEdge> edge_;
  RemoteVerifier verifier_;
};

class OpenAiClient final : public LoadClient {
 public:
  OpenAiClient(const OpenAiSetup& setup, Clock& clock) : setup_(setup), clock_(clock) {}

  Result<ClientAnswer> answer(const LoadRequest& request) override {
    const Json body = {{"model", setup_.model},
                       {"messages", {{{"role", "user"}, {"content", request.prompt.text}}}},
                       {"max_tokens", setup_.answers.max_tokens},
                       {"temperature", setup_.answers.temperature},
                       {"seed", request.seed},
                       {"ignore_eos", setup_.answers.ignore_eos},
                       {"stream", true},
                       {"stream_options", {{"include_usage", true}}}};
    ClientAnswer answer;
    const TimePoint sent = clock_.now();
    EventReader events;
    bool is_whole = false;
    const auto on_event = [&](std::string_view data) -> Status {
      if (data == "[DONE]") {
        is_whole = true;
        return {};
      }
      return take(data, clock_.now() - sent, answer);
    };
    OutgoingRequest asked = {.path = "/v1/chat/completions",
                             .body = body.dump(-1, ' ', false, Json::error_handler_t::replace)};
    asked.on_body = [&](std::string_view bytes) { return events.take(bytes, on_event); };
    OUTRIDER_RETURN_IF_ERROR(http_body(setup_.server, std::move(asked), setup_.key).status());
    if (!is_whole)
      return data_loss(setup_.server.to_string() + ": the stream ended without [DONE]");
    settle(answer);
    return answer;
  }

 private:
  // One event; tokens that come without text are settled at the end.
  Status take(std::string_view data, Duration at, ClientAnswer& answer) const {
    OUTRIDER_ASSIGN_OR_RETURN(const Json event, parse_json(data, "an event of the stream"));
    if (!event.is_object()) return data_loss("an event of the stream is no object");
    if (event.contains("error")) {
      return internal_error(setup_.server.to_string() + ": " + printable(event["error"].dump()));
    }
    const Json::json_pointer content("/choices/0/delta/content");
    const bool has_text = event.contains(content) && event[content].is_string() &&
                          !event[content].get_ref<const std::string&>().empty();
    if (has_text) answer.arrivals.push_back({at, 1});
    const auto usage = [&](const char* name, std::uint64_t& value) {
      const Json::json_pointer path(std::string("/usage/") + name);
      if (event.contains(path) && event[path].is_number_unsigned()) value = event[path];
    };
    usage("prompt_tokens", answer.prompt_tokens);
    usage("completion_tokens", answer.tokens);
    return {};
  }

  // Adds the tokens that the usage counts beyond the events: tokens of half characters, several in
  // one event, and the one that ends the answer.
  static void settle(ClientAnswer& answer) {
    const std::uint64_t seen = answer.arrivals.size();
    if (answer.tokens == 0) answer.tokens = seen;  // a server that does not report usage
    if (answer.tokens > seen && seen > 0) answer.arrivals.back().tokens += answer.tokens - seen;
  }

  const OpenAiSetup setup_;
  Clock& clock_;
};

class GreedySession final : public LoadClient {
 public:
  GreedySession(const EdgeClientSetup& setup, Clock& clock)
      : setup_(setup), clock_(clock), verifier_({.server = setup.server, .token = setup.key}) {}

  Result<ClientAnswer> answer(const LoadRequest& request) override {
    EventQueue events;
    verifier_.start(++epoch_, events.sink());
    Open open;
    open.tokenizer_hash = setup_.tokenizer.content_hash();
    open.sampling.temperature = static_cast<float>(setup_.answers.temperature);
    open.seed = request.seed;
    open.prefix = request.prompt.ids;
    open.end_position = static_cast<Position>(open.prefix.size()) + setup_.answers.max_tokens;
    open.policy.pass_policy = PassPolicy::kOnRequest;  // no pass without guesses
    const Position begin = static_cast<Position>(open.prefix.size());
    verifier_.send({0, 0, std::move(open)});
    Result<ClientAnswer> answer = play(events, begin, request);
    verifier_.stop();  // before the queue that it writes to is destroyed
    return answer;
  }

 private:
  Result<ClientAnswer> play(EventQueue& events, Position begin, const LoadRequest& request) {
    ClientAnswer answer{.prompt_tokens = static_cast<std::uint64_t>(begin)};
    const TimePoint sent = clock_.now();
    std::uint32_t most = kGuesses;
    NodeId next_id = 1;
    while (true) {
      const VerifierEvent event = events.next();
      if (const auto* ended = std::get_if<StreamEnded>(&event)) {
        if (!ended->status.ok()) return ended->status;
        return answer;
      }
      const auto& message = std::get<ServerMessage>(event);
      if (const auto* opened = std::get_if<Opened>(&message)) {
        most = std::min(kGuesses, opened->limits.max_nodes);
      }
      const auto* verdict = std::get_if<Verdict>(&message);
      if (verdict == nullptr) continue;
      answer.tokens += verdict->tokens.size();
      answer.arrivals.push_back({clock_.now() - sent, verdict->tokens.size()});
      const Position end = verdict->position + static_cast<Position>(verdict->tokens.size());
      if (request.stop.load()) {
        verifier_.send({end, 0, Cancel{}});
        continue;
      }
      verifier_.send({end, 0, guesses(next_id, end, most)});
      next_id += static_cast<NodeId>(most);
    }
  }

  // So many different tokens that may follow the text.
  Grow guesses(NodeId first, Position end, std::uint32_t count) const {
    Grow grow{first, end, {}};
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto token = static_cast<TokenId>((first + static_cast<NodeId>(i)) %
                                              static_cast<NodeId>(setup_.tokenizer.vocab_size()));
      grow.nodes.push_back({token, 0, 255});
    }
    return grow;
  }

  static constexpr std::uint32_t kGuesses = 64;

  const EdgeClientSetup setup_;
  Clock& clock_;
  RemoteVerifier verifier_;
  std::uint32_t epoch_ = 0;
};

}  // namespace

Result<std::unique_ptr<LoadClient>> make_edge(const EdgeClientSetup& setup, Clock& clock) {
  if (setup.draft.empty()) {
    return std::unique_ptr<LoadClient>(
        std::make_unique<EdgeClient>(setup, BenchEdge::without_draft(setup.tokenizer, clock)));
  }
  OUTRIDER_ASSIGN_OR_RETURN(
      std::unique_ptr<BenchEdge> edge,
      BenchEdge::create(setup.draft, setup.tokenizer, setup.max_positions, clock));
  return std::unique_ptr<LoadClient>(std::make_unique<EdgeClient>(setup, std::move(edge)));
}

std::unique_ptr<LoadClient> make_openai_client(const OpenAiSetup& setup, Clock& clock) {
  return std::make_unique<OpenAiClient>(setup, clock);
}

std::unique_ptr<LoadClient> make_greedy_session(const EdgeClientSetup& setup, Clock& clock) {
  return std::make_unique<GreedySession>(setup, clock);
}

Result<std::string> http_body(const Address& server, OutgoingRequest request,
                              const std::string& key) {
  request.timeout = kPatience;
  if (!key.empty()) request.headers.emplace_back("Authorization", "Bearer " + key);
  Result<HttpReply> reply = HttpCaller({.server = server}).call(request, {});
  const std::string page = server.to_string() + request.path;
  if (!reply.ok()) return reply.status().with_context(page);
  if (reply->status != 200) return error_of(*reply, page);
  return std::move(reply->body);
}

Result<std::string> openai_model(const Address& server, const std::string& key) {
  const char* const remedy =
      ". Remedy: a server with OpenAI's routes (outrider-server --http-port), or --url of one";
  const Result<std::string> page = http_body(server, {.path = "/v1/models"}, key);
  if (!page.ok()) return Status(page.status().code(), page.status().message() + remedy);
  OUTRIDER_ASSIGN_OR_RETURN(const Json models,
                            parse_json(*page, server.to_string() + "/v1/models"));
  const Json::json_pointer id("/data/0/id");
  if (models.contains(id) && models[id].is_string()) return models[id].get<std::string>();
  return data_loss(server.to_string() + "/v1/models names no model" + remedy);
}

}  // namespace outrider
