// Prompts with answers as token sequences of one length, packed for training.
//
// A source is a JSONL file of {"prompt": .., "answer": ..} objects. Each object becomes one pair of
// turns in the model's chat template. A sequence holds whole pairs, one after the other as in a
// chat, and says where each begins. So a model can see the turns before, or its own pair alone.
//
// Packer: every sequence and batch is a pure function of sources, seed and number. So a resumed run
// sees the same data as an uninterrupted one.
//
// Thread rule: one thread at a time. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "adapters/data/random.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/engine/text/tokenizer.h"
#include "common/serving/conversation/chat_template.h"

namespace outrider {

struct Document {
  std::vector<TokenId> tokens;
  std::vector<std::uint8_t> learnt;  // as long as tokens; 1: predicting this token is learnt
};

struct Source {
  std::string path;
  double share = 1;           // of the tokens, relative to the other sources
  bool answers_only = false;  // the prompts are input only, not learnt
  std::vector<Document> documents;
};

// How prompts and answers become tokens.
struct TurnFormat {
  const Tokenizer& tokenizer;
  ChatTemplate chat;
};

// One prompt with its answer. Special tokens in the texts are read as plain text. The answer and
// the token that ends its turn are learnt, and the prompt unless `answers_only`.
Result<Document> make_document(const TurnFormat& format, const std::string& prompt,
                               const std::string& answer, bool answers_only);

// Reads path[=share]. Errors: those of reading and parsing, with path and line.
Result<Source> load_source(const std::string& path_and_share, const TurnFormat& format,
                           bool answers_only);

// Where learnt[i + 1] is set, tokens[i + 1] is to be predicted from tokens[0..i].
struct Sequence {
  std::vector<TokenId> tokens;       // [length + 1]
  std::vector<std::uint8_t> learnt;  // [length + 1]
  std::vector<std::int64_t> starts;  // [length + 1]: where the token's document begins
};

class Packer final {
 public:
  // Every source has at least one document. pad fills the room into which no document fits; it is
  // never learnt.
  Packer(std::vector<Source> sources, std::uint64_t seed, TokenId pad);

  Sequence next(std::int64_t length);

 private:
  struct Cursor {
    std::vector<std::uint32_t> order;
    std::size_t at = 0;
    double tokens_per_share = 0;
  };

  const Document& draw();
  void shuffle(std::size_t source);

  std::vector<Source> sources_;
  std::vector<Cursor> cursors_;
  std::deque<const Document*> waiting_;
  SplitMix64 random_;
  TokenId pad_;
};

}  // namespace outrider
