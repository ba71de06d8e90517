// The body of an OpenAI client's request: an accepted one is within its ranges and can be encoded
// or is refused, and an error has a client error code. SPDX-License-Identifier: Apache-2.0
#include "common/serving/openai/completion_request.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/serving/openai/request_prompt.h"
#include "tests/unit/common/engine/text/small_tokenizers.h"

namespace {

void check(bool condition) {
  if (!condition) __builtin_trap();
}

void check_error(const outrider::Status& status) {
  check(!status.message().empty() && !status.detail().reason.empty() &&
        (status.code() == outrider::StatusCode::kInvalidArgument ||
         status.code() == outrider::StatusCode::kUnimplemented));
}

// A token that stands for media is never made of a text, and nothing is added twice.
void check_raw(const outrider::Tokenizer& tokenizer, const outrider::CompletionRequest& request) {
  const auto encoded = outrider::encode_request(tokenizer, request, {});
  if (!encoded.ok()) return;
  const auto image = tokenizer.find("<|image_pad|>");
  for (std::size_t i = 0; i < encoded->prompts.size(); ++i) {
    const bool is_text = request.prompts[i].ids.empty();
    for (const outrider::TokenId id : encoded->prompts[i].ids) {
      check(tokenizer.contains(id) && (id != image || !is_text));
    }
  }
}

// A small tokenizer with a token that stands for images.
outrider::Json tokenizer_with_images() {
  outrider::Json json = outrider::small_byte_level();
  outrider::Json image = json["added_tokens"].back();
  image["id"] = image["id"].get<int>() + 1;
  image["content"] = "<|image_pad|>";
  json["added_tokens"].push_back(std::move(image));
  return json;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const outrider::Tokenizer kTokenizer = outrider::load_or_die(tokenizer_with_images());
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  for (const outrider::Api api : {outrider::Api::kCompletions, outrider::Api::kChat,
                                  outrider::Api::kResponses, outrider::Api::kMessages}) {
    const auto request = outrider::parse_completion(body, api, {});
    if (!request.ok()) {
      check_error(request.status());
      continue;
    }
    const outrider::CompletionParams& params = request->params;
    check(outrider::validate(params.text.choice.sampling).ok() && params.text.max_tokens >= -1 &&
          params.text.max_tokens != 0);
    check(request->api == api && request->messages.empty() != request->is_chat());
    for (const std::string& stop : params.text.stop) check(!stop.empty());
    outrider::TextOptions drawn = params.text;
    outrider::settle_seed(drawn);
    check(!drawn.draws_seed || drawn.choice.sampling.temperature == 0.0f);
    if (!request->is_chat()) check_raw(kTokenizer, *request);
    for (const char* name :
         {"chatml", "zephyr"}) {  // the small tokenizer may lack a template's marks
      (void)outrider::encode_request(kTokenizer, *request, {.template_name = name});
    }
  }
  return 0;
}
