// SPDX-License-Identifier: Apache-2.0
#include "common/conversation/default_system.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

// How SmolLM2 writes it: real line ends inside of the literals.
TEST(DefaultSystem, StandsBetweenTheMarkersOfALiteral) {
  EXPECT_EQ(
      default_system_message(
          "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
          "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by "
          "Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + "
          "message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"),
      "You are a helpful AI assistant named SmolLM, trained by Hugging Face");
}

// How Qwen 2.5 writes it: escaped line ends, and before it the messages of a conversation with
// tools.
TEST(DefaultSystem, IsTheFirstThatIsWrittenOutWhole) {
  EXPECT_EQ(default_system_message(
                R"({%- if tools %}{{- '<|im_start|>system\n' }}{{- messages[0]['content'] }})"
                R"({{- "\n\n# Tools\n<tools>" }}{{- "</tools><|im_end|>\n" }}{%- else %})"
                R"({{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }})"
                R"({{- '<|im_start|>system\nYou are Qwen. Don\'t be evil.<|im_end|>\n' }})"),
            "You are Qwen. Don't be evil.");
  EXPECT_EQ(default_system_message(R"({{ "<|im_start|>system\nSay 'yes' {always}.<|im_end|>" }})"),
            "Say 'yes' {always}.");
  EXPECT_EQ(default_system_message("<|im_start|>system\nBe brief.<|im_end|>\n{{ x }}"),
            "Be brief.");
}

TEST(DefaultSystem, MayBeTheValueOfAVariable) {
  EXPECT_EQ(
      default_system_message(
          "{% set default_system_message = 'Be kind.' %}{% if messages[0]['role'] == 'system' "
          "%}{% set system_message = messages[0]['content'] %}{% endif %}"
          "{{ '<|im_start|>system\n' + system_message + '<|im_end|>\n' }}"),
      "Be kind.");
}

TEST(DefaultSystem, IsEmptyWhereThereIsNone) {
  for (const char* source :
       {"", "{{", "{% '", "{{ '<|im_start|>system\n", "{# <|im_start|>system\nx<|im_end|> #}",
        "{{ '<|im_start|>system\n' + m + '<|im_end|>' }}", "{% set system = '' %}",
        "{% set system = m['x'] %}", "{% if system == 'x' %}", "{{ '\\"}) {
    EXPECT_EQ(default_system_message(source), "") << source;
  }
}

}  // namespace
}  // namespace outrider
