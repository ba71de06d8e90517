// Text to label, as a teacher will see it when it serves: turns in its own chat template, or plain
// text.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "adapters/data/corpus.h"
#include "common/base/status.h"
#include "common/text/tokenizer.h"

namespace outrider {

struct LabelText {
  std::vector<std::string> data = {};     // JSONL of prompts and answers, both learnt
  std::vector<std::string> answers = {};  // the same; only the answers are learnt
  std::vector<std::string> text = {};     // JSONL of {"text": ..}, all learnt
  std::string chat_template = {};         // empty: the tokenizer's own
  std::int64_t longest = 512;  // tokens; text is cut into so long parts, answers are cut off there
};

// The documents of all files, in the order of the fields above. An answer's tokens are those of the
// answer alone, behind the prompt's and the template's: what a model that decodes would see; the
// token that ends the turn follows where the answer is not cut off. A prompt that leaves no room
// for an answer is left out. Errors: those of the files, naming the line; kDataLoss if nothing is
// left.
Result<std::vector<Document>> read_label_text(const Tokenizer& tokenizer, const LabelText& text);

}  // namespace outrider
