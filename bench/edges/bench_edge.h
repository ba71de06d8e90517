// One edge inside the bench: a draft that answers with any verifier, like `outrider-edge run`
// without its output. Each answer starts without the caches of earlier ones.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/decoding/protocol/verifier.h"
#include "common/engine/model/model.h"
#include "common/engine/sampling/sampling.h"
#include "common/engine/text/tokenizer.h"
#include "edge_client/generation/local_draft.h"
#include "edge_client/metrics/decoding_stats.h"

namespace outrider {

class EventQueue final {
 public:
  // This must outlive the stream.
  Verifier::EventSink sink() {
    return [this](FromVerifier event) {
      const MutexLock lock(mu_);
      events_.push_back(std::move(event.event));
      changed_.notify_one();
    };
  }

  // Blocks until there is a message. A verifier ends every stream with StreamEnded.
  VerifierEvent next() {
    const MutexLock lock(mu_);
    while (events_.empty()) changed_.wait(mu_);
    VerifierEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::deque<VerifierEvent> events_ OUTRIDER_GUARDED_BY(mu_);
};

struct BenchPrompt {
  std::string name;             // "file.jsonl:12"
  std::vector<TokenId> ids;     // as `outrider-edge run` encodes it: in the chat template, if any
  std::vector<TokenId> answer;  // with the token that ends its turn; empty if the line has none
};

// The first `limit` prompts of the file; 0: all. Errors: those of read_prompt_file() and encoding.
Result<std::vector<BenchPrompt>> read_prompts(const std::string& path, const Tokenizer& tokenizer,
                                              std::size_t limit);

// A model directory as a Model with that many compute threads.
Result<std::unique_ptr<Model>> load_bench_model(const std::string& directory,
                                                const std::string& dtype, int threads);

struct BenchRequest {
  std::string name;  // for errors
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  std::uint64_t seed = 0;
  ChoiceSettings settings = {};  // a constraint has been compiled
  Position max_tokens = 0;
  int draft_length = 0;  // of the chains; 0: plain cloud decoding, without the draft
  Strategy strategy = Strategy::kSd;
  Optimize optimize = Optimize::kLatency;
  bool ignore_eos = false;
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

  // Look-up guesses beside the draft; before the first answer. It remembers answers.
  Status guess_beside_by_lookup();

  // Plain cloud decoding only.
  static std::unique_ptr<BenchEdge> without_draft(const Tokenizer& tokenizer, Clock& clock);

  Result<BenchAnswer> decode(Verifier& verifier, const BenchRequest& request);

 private:
  BenchEdge(std::unique_ptr<LocalDraft> draft, const Tokenizer& tokenizer, Clock& clock)
      : draft_(std::move(draft)), tokenizer_(tokenizer), clock_(clock) {}

  const std::unique_ptr<LocalDraft> draft_;  // null: without
  const Tokenizer& tokenizer_;
  Clock& clock_;
};

}  // namespace outrider
