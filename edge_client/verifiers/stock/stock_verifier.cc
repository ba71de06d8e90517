// SPDX-License-Identifier: Apache-2.0
#include "edge_client/verifiers/stock/stock_verifier.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/base/random_id.h"
#include "common/decoding/protocol/open_assembly.h"
#include "common/decoding/verify/session/session.h"

namespace outrider {
namespace {

constexpr std::size_t kMaxWaitingMessages = 4096;         // as for a link that does not move
constexpr std::size_t kMaxAhead = 32;                     // tokens of one plain request
constexpr Duration kPassLimit = std::chrono::minutes(3);  // more than a request may take
constexpr Position kAnyContext = Position{1} << 30;
constexpr std::size_t kMeasuredTokens = 16;
constexpr double kMaxLost = 0.05;  // the part of all time that judging may lose

// The children with the largest confidence, from the root on.
std::vector<TokenId> likeliest_chain(const PassPlan& plan) {
  std::vector<TokenId> chain;
  for (std::int32_t at = -1;;) {
    std::int32_t next = -1;
    for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
      const PassPlan::NodeRow& node = plan.nodes[i];
      if (node.parent != at) continue;
      const bool is_likelier =
          next < 0 || node.confidence > plan.nodes[static_cast<std::size_t>(next)].confidence;
      if (is_likelier) next = static_cast<std::int32_t>(i);
    }
    if (next < 0) return chain;
    chain.push_back(plan.nodes[static_cast<std::size_t>(next)].token);
    at = next;
  }
}

// The nodes that a walk of so many choices cannot leave behind it: it ends with the last choice.
std::vector<std::int32_t> nodes_beyond(const PassPlan& plan, std::size_t choices) {
  std::vector<std::int32_t> beyond;
  std::vector<std::size_t> depths;
  for (const PassPlan::NodeRow& node : plan.nodes) {
    depths.push_back(node.parent < 0 ? 1 : depths[static_cast<std::size_t>(node.parent)] + 1);
    if (depths.back() >= choices) beyond.push_back(static_cast<std::int32_t>(depths.size()) - 1);
  }
  return beyond;
}

Status check_can_follow(const Open& open) {
  const ChoiceSettings& settings = open.settings;
  const char* const asked = open.sampling.temperature != 0 ? "a temperature above 0"
                            : settings.constraint.asks()   ? "a form of the answer"
                            : !settings.change_nothing()
                                ? "penalties, biases, bad words or min_tokens"
                            : open.top_logprobs.has_value() ? "log-probabilities"
                            : open.ignore_target_stops      ? "ignore_eos"
                            : open.wants_digests            ? "a record"
                                                            : nullptr;
  if (asked == nullptr) return {};
  return invalid_argument(std::string(asked) +
                          ": of a server that is not Outrider's only the likeliest tokens can be "
                          "followed. Remedy: leave that out (--temp 0), or outrider-server");
}

Target target_of(const StockModel& model, ServerApi api, const Tokenizer& tokenizer) {
  ModelInfo info;
  info.name = marked_name(model.name, api);
  info.fingerprint = std::string(name_of(api)) + ":" + model.name;
  info.arithmetic_id = kForeignArithmetic;
  info.vocab_size = tokenizer.vocab_size();
  info.max_positions = model.context > 0 ? model.context : kAnyContext;
  if (const std::optional<TokenId> eos = tokenizer.eos()) info.stop_ids = {*eos};
  Target target{.model = info, .tokenizer_hash = tokenizer.content_hash(), .limits = {}};
  target.limits.max_positions = info.max_positions;
  target.limits.vocab_size = info.vocab_size;
  target.limits.pass_limit = kPassLimit;
  return target;
}

}  // namespace

std::string marked_name(const std::string& model, ServerApi api) {
  return model + " (" + name_of(api) + ", " + kForeignArithmetic + ")";
}

void JudgingGains::begin(Duration probe_took) {
  *this = {};
  judged_ = {.tokens = StockCosts::kJudged + 1, .seconds = to_seconds(probe_took)};
}

void JudgingGains::add(bool judged, std::size_t tokens, Duration took) {
  Requests& requests = judged ? judged_ : plain_;
  requests.tokens += static_cast<double>(tokens);
  requests.seconds += to_seconds(took);
  rests_ = rests_ || loses();
}

bool JudgingGains::loses() const {
  if (plain_.tokens == 0) return false;
  const double lost = judged_.seconds - judged_.tokens * plain_.seconds / plain_.tokens;
  return lost > kMaxLost * (judged_.seconds + plain_.seconds);
}

// One stream, on its thread.
struct StockVerifier::Stream {
  std::uint32_t epoch = 0;
  EventSink sink;
  std::stop_token cut;
  SystemClock clock;
  std::optional<OpenAssembly> opening = {};  // until the session is there
  std::unique_ptr<VerifySession> session = nullptr;
  TokenId end_token = 0;
  // Choices behind the session's text that the server has told already, and what a pass of one of
  // them took.
  std::vector<TokenId> known = {};
  Duration known_took{0};
  std::size_t ahead = 1;  // tokens that the next plain request asks for
  bool has_read = false;  // the server has read the prompt
};

StockVerifier::StockVerifier(std::unique_ptr<StockServer> server, ServerApi api,
                             const Tokenizer& tokenizer)
    : server_(std::move(server)), api_(api), tokenizer_(tokenizer) {}

void StockVerifier::start(std::uint32_t epoch, EventSink sink) {
  stop();
  {
    const MutexLock lock(mu_);
    inbox_.clear();
    ending_ = false;
  }
  cut_ = std::stop_source();
  auto stream = std::make_shared<Stream>();
  stream->epoch = epoch;
  stream->sink = std::move(sink);
  stream->cut = cut_.get_token();
  thread_ = std::thread([this, stream] { run(*stream); });
}

void StockVerifier::send(EdgeMessage message) {
  const bool cancels = std::holds_alternative<Cancel>(message.body);
  {
    const MutexLock lock(mu_);
    if (ending_ || inbox_.size() >= kMaxWaitingMessages) return;
    inbox_.push_back(std::move(message));
  }
  if (cancels) cut_.request_stop();
  changed_.notify_one();
}

void StockVerifier::stop() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mu_);
    ending_ = true;
  }
  cut_.request_stop();
  changed_.notify_one();
  thread_.join();
}

void StockVerifier::run(Stream& stream) {
  Status ended = serve(stream);
  if (!ended.ok()) model_.reset();
  if (ended.code() == StatusCode::kResourceExhausted) {
    stream.sink(
        {stream.epoch, ServerMessage(Notice{Notice::Kind::kOverloaded, server_->retry_after()})});
  }
  MutexLock lock(mu_);
  if (std::exchange(ending_, true)) return;
  lock.unlock();
  stream.sink({stream.epoch, StreamEnded{std::move(ended)}});
}

// Until the answer's end, an error, or stop(), after which nobody hears what it returns.
Status StockVerifier::serve(Stream& stream) {
  std::deque<EdgeMessage> messages;
  while (receive(stream, messages)) {
    for (EdgeMessage& message : messages) {
      OUTRIDER_RETURN_IF_ERROR(take(stream, std::move(message)));
    }
    if (!stream.session) continue;
    deliver(stream);
    const std::optional<TimePoint> runs_at = stream.session->runnable_at();
    if (runs_at && *runs_at <= stream.clock.now()) {
      const Status passed = pass(stream);
      if (passed.code() == StatusCode::kCancelled) {
        Usage usage = stream.session->usage();
        usage.reason = FinishReason::kCancelled;
        stream.sink({stream.epoch, ServerMessage(usage)});
        return {};
      }
      OUTRIDER_RETURN_IF_ERROR(passed);
      deliver(stream);
    }
    if (stream.session->finished()) return {};
  }
  return cancelled("interrupted");
}

// Waits for messages, and for the time of the next pass. False: the stream is to end.
bool StockVerifier::receive(Stream& stream, std::deque<EdgeMessage>& messages) {
  const std::optional<TimePoint> runs_at =
      stream.session ? stream.session->runnable_at() : std::nullopt;
  messages.clear();
  const MutexLock lock(mu_);
  while (!ending_ && inbox_.empty() && (!runs_at || stream.clock.now() < *runs_at)) {
    if (runs_at) {
      changed_.wait_until(mu_, *runs_at);
    } else {
      changed_.wait(mu_);
    }
  }
  messages.swap(inbox_);
  return !ending_;
}

Status StockVerifier::take(Stream& stream, EdgeMessage message) {
  const TimePoint now = stream.clock.now();
  if (stream.session) return stream.session->on_message(message, now);
  if (stream.opening) {
    OUTRIDER_RETURN_IF_ERROR(stream.opening->take(message, now));
  } else {
    stream.opening.emplace(std::move(message), now);
  }
  return stream.opening->complete() ? open_session(stream) : Status();
}

void StockVerifier::deliver(Stream& stream) {
  for (ServerMessage& message : stream.session->take_messages()) {
    stream.sink({stream.epoch, std::move(message)});
  }
}

Status StockVerifier::open_server(const std::stop_token& stop) {
  if (model_ && !gains_.needs_probe()) return {};
  OUTRIDER_ASSIGN_OR_RETURN(model_, server_->open(stop));
  gains_.begin(model_->probe_took);
  return {};
}

Status StockVerifier::open_session(Stream& stream) {
  std::vector<EdgeMessage> messages = std::exchange(stream.opening, std::nullopt)->release();
  const Open& open = std::get<Open>(messages.front().body);
  OUTRIDER_RETURN_IF_ERROR(check_can_follow(open));
  OUTRIDER_RETURN_IF_ERROR(open_server(stream.cut));
  Target target = target_of(*model_, api_, tokenizer_);
  target.template_hash = open.template_hash;  // the edge's own: the server sends none
  OUTRIDER_RETURN_IF_ERROR(check_open(open, target));
  const std::span<const TokenId> prefix = open.prefix;
  const auto prompt =
      open.answer_begin > 0 ? static_cast<std::size_t>(open.answer_begin) : prefix.size();
  OUTRIDER_RETURN_IF_ERROR(server_->check_prompt(prefix.first(prompt)));
  const std::vector<TokenId> stops = make_end_rule(open, target).stop_ids;
  if (stops.empty()) {
    return failed_precondition(
        "the tokenizer names no token that ends a text. Remedy: stop_token_ids, or a --tokenizer "
        "with tokenizer_config.json");
  }
  stream.end_token = tokenizer_.eos().value_or(stops.front());
  stream.session = std::make_unique<VerifySession>(
      open, target,
      VerifySession::Setup{.session_id = random_id(),
                           .cached = 0,
                           .prefill_chunk = std::numeric_limits<std::uint32_t>::max()},
      stream.clock.now());
  for (std::size_t i = 1; i < messages.size(); ++i) {
    OUTRIDER_RETURN_IF_ERROR(stream.session->on_message(messages[i], stream.clock.now()));
  }
  return {};
}

// One pass: what the server chooses along the likeliest chain, or behind the text.
Status StockVerifier::pass(Stream& stream) {
  VerifySession& session = *stream.session;
  const auto end = static_cast<std::size_t>(session.tree().end());
  const TimePoint begun = stream.clock.now();
  const PassPlan plan = session.start(begun);
  deliver(stream);
  Duration took = stream.known_took;
  if (stream.known.empty()) {
    std::vector<TokenId> drafted = likeliest_chain(plan);
    const bool is_to_measure = !drafted.empty() && stream.has_read && gains_.needs_plain();
    if (is_to_measure) stream.ahead = kMeasuredTokens;
    if (!gains_.pays()) drafted.clear();
    OUTRIDER_ASSIGN_OR_RETURN(StockChoices said, choices(stream, drafted));
    if (said.ended) said.tokens.push_back(stream.end_token);
    if (said.tokens.empty()) {
      return internal_error(
          "the server chose no token, and did not end the text. Remedy: a server that works");
    }
    for (const TokenId token : said.tokens) {
      if (token >= 0 && token < session.limits().vocab_size) continue;
      return internal_error("the server chose the token " + std::to_string(token) +
                            ", and the tokenizer has " +
                            std::to_string(session.limits().vocab_size) +
                            ". Remedy: --model or --tokenizer of its model's family");
    }
    stream.known = std::move(said.tokens);
    took = stream.clock.now() - begun;
    if (std::exchange(stream.has_read, true)) {
      gains_.add(!drafted.empty(), stream.known.size(), took);
    }
    // A plain request brings tokens of passes to come: each has its part of the time.
    if (drafted.empty()) took /= static_cast<std::int64_t>(stream.known.size());
    stream.known_took = took;
  }
  for (const std::int32_t node : nodes_beyond(plan, stream.known.size())) session.end_node(node);
  session.finish(
      [&](std::size_t /*row*/, Position position) {
        return stream.known[static_cast<std::size_t>(position) - end];
      },
      {.took = took, .share = took, .rows = static_cast<std::uint32_t>(plan.rows())},
      stream.clock.now());
  const auto used =
      static_cast<std::ptrdiff_t>(static_cast<std::size_t>(session.tree().end()) - end);
  stream.known.erase(stream.known.begin(), stream.known.begin() + used);
  return {};
}

// At least one token, or the end.
Result<StockChoices> StockVerifier::choices(Stream& stream, std::span<const TokenId> drafted) {
  const std::span<const TokenId> text = stream.session->tree().text();
  if (!drafted.empty()) {
    stream.ahead = 1;
    OUTRIDER_ASSIGN_OR_RETURN(StockChoices judged, server_->judge(text, drafted, stream.cut));
    if (judged.ended || !judged.tokens.empty()) return judged;
    return server_->go_on(text, 1, stream.cut);
  }
  const Position left = stream.session->opened().end_position - stream.session->tree().end();
  const std::size_t count = std::min({stream.ahead, kMaxAhead, static_cast<std::size_t>(left)});
  stream.ahead *= 2;
  OUTRIDER_ASSIGN_OR_RETURN(StockChoices said, server_->go_on(text, count, stream.cut));
  return said;
}

Result<StockCosts> StockVerifier::measure(std::span<const TokenId> text,
                                          const std::stop_token& stop) {
  SystemClock clock;
  OUTRIDER_RETURN_IF_ERROR(open_server(stop));
  OUTRIDER_RETURN_IF_ERROR(server_->go_on(text, 1, stop).status());  // reads the text
  const TimePoint begun = clock.now();
  OUTRIDER_RETURN_IF_ERROR(server_->go_on(text, 1, stop).status());
  const TimePoint one = clock.now();
  OUTRIDER_ASSIGN_OR_RETURN(const StockChoices said, server_->go_on(text, kMeasuredTokens, stop));
  const TimePoint many = clock.now();
  if (said.tokens.size() <= StockCosts::kJudged) {
    return failed_precondition(
        "the target says hardly anything behind this prompt: nothing to compare. Remedy: another "
        "prompt (-p)");
  }
  const std::span drafted = std::span(said.tokens).first(StockCosts::kJudged);
  OUTRIDER_RETURN_IF_ERROR(server_->judge(text, drafted, stop).status());
  const TimePoint judged = clock.now();
  const double more = static_cast<double>(said.tokens.size() - 1);
  return StockCosts{.plain_ms = std::max(0.0, to_ms((many - one) - (one - begun))) / more,
                    .judge_ms = to_ms(judged - many)};
}

}  // namespace outrider
