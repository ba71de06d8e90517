// A verifier whose passes are requests to a server that people already run (stock_server.h). The
// session is the one that Outrider's own verifiers have, so the edge's side does not differ:
//
//   nodes   -> their likeliest chain as one request that judges it; other branches wait
//   no node -> one request that goes on, for more tokens each time; the next passes take them
//
// Where judging costs more time than it brings (JudgingGains), nodes are treated as if there were
// none.
//
// Its bits are not Outrider's (kForeignArithmetic). Only temperature 0 can be followed; an Open
// that asks for more is refused by name.
//
// Thread rule and events: as verifier.h says; each stream has a thread of its own. stop() waits for
// a request that is out, a moment. Ownership: the tokenizer outlives it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/decoding/protocol/verifier.h"
#include "common/engine/text/tokenizer.h"
#include "edge_client/verifiers/stock/stock_server.h"

namespace outrider {

// A model's name on such a server, with what is to be known of its bits.
std::string marked_name(const std::string& model, ServerApi api);

// The times of requests, by which a round of drafted tokens pays or does not.
struct StockCosts {
  double plain_ms = 0;  // of a token that the server adds to the last one
  double judge_ms = 0;  // of a request that judges kJudged drafted tokens, the round trip included
  static constexpr std::size_t kJudged = 4;

  // The tokens that a round has to bring to be as fast as plain decoding.
  double tokens_to_pay() const { return plain_ms > 0 ? judge_ms / plain_ms : 0; }
};

// The time that judging brings or loses, against plain requests: a server may take seconds to judge
// tokens that it would say by itself in a tenth of a second. That is known before the first round,
// by the request that judged a probe, because a judged round may change the text as well: the
// server keeps its states, which were computed in a batch, and chooses later tokens by them.
//
// Thread rule: a value.
class JudgingGains final {
 public:
  // Begins anew. The request that judged the probe counts as a round of kJudged drafted tokens
  // which are all right.
  void begin(Duration probe_took);
  // One request brought so many tokens.
  void add(bool judged, std::size_t tokens, Duration took);
  // The next drafted tokens are to be judged: so far that brings time.
  bool pays() const { return plain_.tokens > 0 && !rests_; }
  // It is time to see what a plain request takes.
  bool needs_plain() const { return plain_.tokens == 0; }
  // Judging has lost only a small part of all time by now, so another probe may show that the
  // server has become faster.
  bool needs_probe() const { return rests_ && !loses(); }

 private:
  struct Requests {
    double tokens = 0;
    double seconds = 0;
  };
  bool loses() const;

  Requests judged_, plain_;
  bool rests_ = false;
};

class StockVerifier final : public Verifier {
 public:
  StockVerifier(std::unique_ptr<StockServer> server, ServerApi api, const Tokenizer& tokenizer);
  ~StockVerifier() override { stop(); }
  StockVerifier(const StockVerifier&) = delete;
  StockVerifier& operator=(const StockVerifier&) = delete;

  void start(std::uint32_t epoch, EventSink sink) override;
  void send(EdgeMessage message) override;
  void stop() override;

  // Between streams; blocks. Errors: StockServer's; FAILED_PRECONDITION if the target says hardly
  // anything behind the text.
  Result<StockCosts> measure(std::span<const TokenId> text, const std::stop_token& stop);

 private:
  struct Stream;

  void run(Stream& stream);
  Status serve(Stream& stream);
  bool receive(Stream& stream, std::deque<EdgeMessage>& messages);
  Status take(Stream& stream, EdgeMessage message);
  Status open_server(const std::stop_token& stop);
  Status open_session(Stream& stream);
  Status pass(Stream& stream);
  Result<StockChoices> choices(Stream& stream, std::span<const TokenId> drafted);
  void deliver(Stream& stream);

  const std::unique_ptr<StockServer> server_;
  const ServerApi api_;
  const Tokenizer& tokenizer_;
  std::optional<StockModel> model_;  // nothing: it has not been asked, or a stream failed
  JudgingGains gains_;               // since the model was asked, over all streams

  Mutex mu_;
  CondVar changed_;
  std::deque<EdgeMessage> inbox_ OUTRIDER_GUARDED_BY(mu_);
  bool ending_ OUTRIDER_GUARDED_BY(mu_) = false;  // the stream is over, or is to be
  std::stop_source cut_;                          // of the stream's requests
  std::thread thread_;                            // of the stream
};

}  // namespace outrider
