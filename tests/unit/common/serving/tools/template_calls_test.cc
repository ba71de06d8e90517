// Small templates that write calls as those of models do. With OUTRIDER_CHAT_TEMPLATES=DIR, those
// of llama.cpp's folder models/templates too.
// SPDX-License-Identifier: Apache-2.0
#include "common/serving/tools/template_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

namespace outrider {
namespace {

using testing::HasSubstr;

ChatTemplate template_of(const std::string& text) {
  auto chosen = ChatTemplate::choose(
      ChatSource{.templates = {{"default", text}}, .bos = "<s>", .eos = "</s>"}, "");
  EXPECT_TRUE(chosen.ok()) << chosen.status().to_string();
  return *std::move(chosen);
}

// A template that writes an answer's calls like this, for each `call`.
std::string chat_with(const std::string& call, const std::string& before = "",
                      const std::string& behind = "") {
  return "{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
         "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
         "{% if m.tool_calls %}" +
         before + "{% for c in m.tool_calls %}{% set call = c.function %}" + call + "{% endfor %}" +
         behind +
         "{% endif %}<|im_end|>\n{% endfor %}"
         "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
}

TEST(TemplateCalls, TheFormIsTheOneThatReadsWhatTheTemplateWrites) {
  const std::string object = R"({"name": "{{ call.name }}", "@": {{ call.arguments | tojson }}})";
  const auto with = [&](const std::string& key) {
    std::string text = object;
    return text.replace(text.find('@'), 1, key);
  };
  const std::vector<std::pair<std::string, std::string>> templates = {
      {"hermes", chat_with("<tool_call>\n" + with("arguments") + "\n</tool_call>")},
      {"llama3_json", chat_with(with("parameters"))},
      {"mistral", chat_with(with("arguments"), "[TOOL_CALLS][", "]")},
      {"mistral", chat_with("[TOOL_CALLS]{{ call.name }}[ARGS]{{ call.arguments | tojson }}")},
      {"granite", chat_with(with("arguments"), "<|tool_call|>[", "]")},
      {"functionary_v3_1",
       chat_with("<function={{ call.name }}>{{ call.arguments | tojson }}</function>")},
      {"functionary_v3_2", chat_with(">>>{{ call.name }}\n{{ call.arguments | tojson }}")},
      {"qwen3_coder", chat_with("<tool_call>\n<function={{ call.name }}>\n"
                                "{% for k, v in call.arguments | items %}<parameter={{ k }}>\n"
                                "{{ v }}\n</parameter>\n{% endfor %}</function>\n</tool_call>")},
      {"seed_oss", chat_with("<seed:tool_call>\n<function={{ call.name }}>\n"
                             "{% for k, v in call.arguments | items %}<parameter={{ k }}>"
                             "{{ v }}</parameter>\n{% endfor %}</function>\n</seed:tool_call>")},
  };
  for (const auto& [format, text] : templates) {
    const auto calls = calls_of_template(template_of(text), "");
    ASSERT_TRUE(calls.ok()) << format << ": " << calls.status().to_string();
    EXPECT_EQ(calls->format->name, format);
    EXPECT_FALSE(calls->arguments_are_text) << format;
    EXPECT_TRUE(calls->writes_calls) << format;
  }
}

TEST(TemplateCalls, SomeTemplatesWantArgumentsAsText) {
  const auto calls = calls_of_template(
      template_of(chat_with("<function={{ call.name }}>{{ call.arguments + '' }}</function>")), "");
  ASSERT_TRUE(calls.ok()) << calls.status().to_string();
  EXPECT_EQ(calls->format->name, "functionary_v3_1");
  EXPECT_TRUE(calls->arguments_are_text);
}

TEST(TemplateCalls, ATemplateThatLeavesCallsOutMayNameTheForm) {
  const std::string silent =
      "{% if tools %}Answer with <|tool_call|> and a list. {{ tools | tojson }}{% endif %}"
      "{% for m in messages %}{{ m.content }}\n{% endfor %}";
  const auto calls = calls_of_template(template_of(silent), "");
  ASSERT_TRUE(calls.ok()) << calls.status().to_string();
  EXPECT_EQ(calls->format->name, "granite");
  EXPECT_FALSE(calls->writes_calls);
  const auto list = nlohmann::ordered_json::parse(
      R"([{"function": {"name": "move", "arguments": {"x": 2, "on": "a"}}}])");
  EXPECT_EQ(write_calls(*calls->format, list),
            R"(<|tool_call|>[{"name":"move","arguments":{"x":2,"on":"a"}}])");
  EXPECT_EQ(write_calls(*find_call_format("lfm2"), list),
            R"(<|tool_call_start|>[move(x=2, on="a")]<|tool_call_end|>)");
}

TEST(TemplateCalls, WhatATemplateCannotDoIsRefusedWithTheRemedy) {
  const std::string plain = "{% for m in messages %}{{ m.content }}\n{% endfor %}";
  Status refused = calls_of_template(template_of(plain), "").status();
  EXPECT_EQ(refused.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(refused.message(), HasSubstr("--chat-template"));
  EXPECT_EQ(refused.detail().field, "tools");
  EXPECT_EQ(calls_of_template(template_of(plain), "hermes").status().code(),
            StatusCode::kUnimplemented)
      << "a name does not bring the tools into the prompt";
  const ChatTemplate odd = template_of(chat_with("<<{{ call.name }}>>"));
  refused = calls_of_template(odd, "").status();
  EXPECT_THAT(refused.message(), HasSubstr("--tool-call-parser"));
  EXPECT_EQ(calls_of_template(odd, "hermes")->format->name, "hermes");
  EXPECT_EQ(calls_of_template(odd, "hermse").status().code(), StatusCode::kInvalidArgument);
}

TEST(TemplateCalls, ModelsTemplates) {
  const char* folder = std::getenv("OUTRIDER_CHAT_TEMPLATES");
  if (folder == nullptr) GTEST_SKIP() << "OUTRIDER_CHAT_TEMPLATES names no folder of templates";
  const std::map<std::string, std::string> expected = {
      {"Qwen-Qwen2.5-7B-Instruct", "hermes"},
      {"Qwen-Qwen3-0.6B", "hermes"},
      {"Qwen-QwQ-32B", "hermes"},
      {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "hermes"},
      {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "hermes"},
      {"ibm-granite-granite-4.0", "hermes"},
      {"ibm-granite-granite-3.3-2B-Instruct", "granite"},
      {"mistralai-Mistral-Nemo-Instruct-2407", "mistral"},
      {"Mistral-Small-3.2-24B-Instruct-2506", "mistral"},
      {"mistralai-Ministral-3-14B-Reasoning-2512", "mistral"},
      {"unsloth-mistral-Devstral-Small-2507", "mistral"},
      {"meta-llama-Llama-3.1-8B-Instruct", "llama3_json"},
      {"meta-llama-Llama-3.2-3B-Instruct", "llama3_json"},
      {"meta-llama-Llama-3.3-70B-Instruct", "llama3_json"},
      {"meetkai-functionary-medium-v3.1", "functionary_v3_1"},
      {"meetkai-functionary-medium-v3.2", "functionary_v3_2"},
      {"LFM2.5-8B-A1B", "lfm2"},
      {"Apriel-1.6-15b-Thinker-fixed", "apriel"},
      {"MiniMax-M1", "apriel"},
      {"NVIDIA-Nemotron-Nano-v2", "nemotron_v2"},
      {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", "cohere"},
      {"moonshotai-Kimi-K2", "kimi_k2"},
      {"Qwen3-Coder", "qwen3_coder"},
      {"Qwen3.5-4B", "qwen3_coder"},
      {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "qwen3_coder"},
      {"ByteDance-Seed-OSS", "seed_oss"},
      {"MiniMax-M2", "minimax_m2"},
      {"GLM-4.6", "glm45"},
      {"GLM-4.7-Flash", "glm45"},
  };
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".jinja") continue;
    const std::string name = entry.path().stem();
    std::ifstream file(entry.path());
    std::stringstream text;
    text << file.rdbuf();
    const auto chat = ChatTemplate::choose(
        ChatSource{.templates = {{"default", text.str()}}, .bos = "<s>", .eos = "</s>"}, "");
    const auto calls = chat.ok() ? calls_of_template(*chat, "") : chat.status();
    std::cout << name << ": "
              << (calls.ok() ? std::string(calls->format->name) : calls.status().message())
              << (calls.ok() && calls->arguments_are_text ? " (text)" : "")
              << (calls.ok() && !calls->writes_calls ? " (silent)" : "") << "\n";
    const auto known = expected.find(name);
    if (known == expected.end()) continue;
    EXPECT_TRUE(calls.ok()) << name << ": " << calls.status().message();
    if (calls.ok()) {
      EXPECT_EQ(calls->format->name, known->second) << name;
    }
  }
}

}  // namespace
}  // namespace outrider
