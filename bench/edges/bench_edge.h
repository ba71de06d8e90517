// One edge inside the bench: a draft model on its own thread that decodes answers, with any
// verifier, as `outrider-edge run` does, but without text.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/model/model.h"
#include "common/protocol/verifier.h"
#include "common/sampling/sampling.h"
#include "common/text/tokenizer.h"
#include "edge_client/session/decoding_session.h"
#include "edge_client/shell/draft_worker.h"

namespace outrider {

// A model directory as a Model with that many compute threads.
Result<std::unique_ptr<Model>> load_bench_model(const std::string& directory,
                                                const std::string& dtype, int threads);

struct BenchRequest {
  std::string name;  // for errors
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  std::uint64_t seed = 0;
  Position max_tokens = 0;
  int draft_length = 0;  // of the chains; 0: plain cloud decoding, the draft rests
  Strategy strategy = Strategy::kSd;
  Optimize optimize = Optimize::kLatency;
};

struct BenchAnswer {
  std::vector<TokenId> ids;
  DecodingStats stats;
};

class BenchEdge final {
 public:
  // max_positions: of the target. tokenizer and clock must outlive the edge.
  static Result<std::unique_ptr<BenchEdge>> create(const std::string& draft,
                                                   const Tokenizer& tokenizer,
                                                   Position max_positions, Clock& clock);
  static Result<std::unique_ptr<BenchEdge>> create(std::unique_ptr<Model> draft,
                                                   const Tokenizer& tokenizer,
                                                   Position max_positions, Clock& clock);

  Result<BenchAnswer> decode(Verifier& verifier, const BenchRequest& request);

 private:
  BenchEdge(std::unique_ptr<Model> draft, std::unique_ptr<DraftEngine> engine,
            const Tokenizer& tokenizer, Position max_positions, Clock& clock);

  const std::unique_ptr<Model> draft_;
  DraftWorker worker_;
  const Tokenizer& tokenizer_;
  const Position max_positions_;
  Clock& clock_;
};

}  // namespace outrider
