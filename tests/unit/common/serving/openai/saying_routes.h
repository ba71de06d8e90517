// OpenAI's routes over real HTTP, and a program behind them that answers with a given text. Its
// chat template writes tools in the manner of Hermes.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/serving/http/server.h"
#include "common/serving/openai/routes.h"
#include "tests/support/paths.h"
#include "tests/unit/common/serving/http/http_client.h"

namespace outrider {

class SayingRoutesTest : public testing::Test {
 protected:
  static constexpr char kTemplate[] =
      "{% if tools %}<|im_start|>system\n{% for t in tools %}{{ t | tojson }}\n{% endfor "
      "%}<|im_end|>\n"
      "{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n"
      "{% if m.role == 'tool' %}{{ m.tool_call_id }}: {% endif %}{{ m.content }}"
      "{% for c in m.tool_calls or [] %}<tool_call>\n{\"name\": \"{{ c.function.name }}\", "
      "\"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}<|im_end|>\n"
      "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

  SayingRoutesTest() {
    service_.tokenizer = &tokenizer_;
    service_.model_name = [] { return std::string("robot"); };
    service_.chat = [] {
      return Result<ChatSource>(ChatSource{.templates = {{"default", kTemplate}}, .eos = "</s>"});
    };
    service_.complete = [this](CompletionCall call) {
      prompt_ = *tokenizer_.decode(call.prompt.ids, /*skip_special=*/false);
      call.client->begin();
      for (std::size_t at = 0; at < says_.size(); at += 3) {
        const std::vector<AnswerPiece> piece = {{.text = says_.substr(at, 3)}};
        call.client->show(piece);
      }
      call.client->end({.by_length = by_length_, .usage = {.completion_tokens = 9}});
      return Status();
    };
    service_.constrain = [this](const ConstraintSpec& spec,
                                const HttpRequest&) -> Result<AnswerConstraint> {
      form_ = spec;
      if (!form_status_.ok()) return form_status_;
      return AnswerConstraint{.spec = spec};
    };
    server_ = *HttpServer::start({.listen = {"127.0.0.1", 0}}, openai_routes(service_));
  }
  std::string post_to(const char* path, const std::string& body) {
    HttpClient client(server_->address());
    client.post(path, body);
    return client.read_all();
  }
  static Json body_of(const std::string& response) {
    return Json::parse(response.substr(response.find("\r\n\r\n") + 4), nullptr, false);
  }
  static std::vector<Json> events_of(const std::string& response) {
    std::vector<Json> events;
    for (std::size_t at = 0; (at = response.find("data: {", at)) != std::string::npos; ++at) {
      const std::size_t begin = at + 6;
      events.push_back(Json::parse(response.substr(begin, response.find("\n\n", begin) - begin),
                                   nullptr, false));
    }
    return events;
  }

  const Tokenizer tokenizer_ = *Tokenizer::load(source_dir() + "/models/demo-draft");
  OpenaiService service_;
  std::string says_, prompt_;  // the answer, and what was asked last
  bool by_length_ = false;
  ConstraintSpec form_;  // that was asked for last
  Status form_status_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace outrider
