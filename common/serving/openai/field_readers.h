// Readers of the fields whose values are more than a number or a switch.
//
// Thread rule: pure functions. Errors: those of body_fields.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/json.h"
#include "common/base/status.h"
#include "common/serving/openai/completion_request.h"

namespace outrider {

Status read_seed(const Json& value, TextOptions& text);
Status read_stop(const Json& value, std::vector<std::string>& out, std::string_view field = "stop");
Status read_stream_options(const Json& value, AnswerExtras& extras);
// "outrider": true for figures, or {"figures": true, "record": true}.
Status read_own_extras(const Json& value, AnswerExtras& extras);
Status read_template_variables(const Json& value, nlohmann::ordered_json& out);
// A text, ids of tokens, or a list of either.
Status read_prompts(const Json& value, std::vector<PromptText>& out);
Status read_slo(const Json& value, Slo& slo);
// key: parse_special or add_special_tokens.
Status read_raw(const Json& value, std::string_view key, bool& out,
                const CompletionRequest& request);
Status read_service_tier(const Json& value, ServiceTier& out);
Status read_speculation(const Json& value, CompletionParams& params);
Status read_top_k(const Json& value, SamplingParams& sampling);
// {"ID": BIAS, ..}, or llama.cpp's [[ID, BIAS], ..].
Status read_logit_bias(const Json& value, std::vector<LogitBias>& out);
Status read_stop_tokens(const Json& value, std::vector<TokenId>& out);
Status read_bad_words(const Json& value, std::vector<std::string>& out);
// Whether the tokens that a request names are the tokenizer's, and what else needs it.
Status check_named_tokens(const Tokenizer& tokenizer, const TextOptions& text);
Status read_reasoning_format(const Json& value, std::optional<bool>& reads);

}  // namespace outrider
