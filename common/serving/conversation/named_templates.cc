// SPDX-License-Identifier: Apache-2.0
#include "common/serving/conversation/named_templates.h"

#include <algorithm>
#include <array>

namespace outrider {
namespace {

// Replaces the markers "@1", "@2", .. by the values.
std::string fill_in(std::string text, std::initializer_list<std::string_view> values) {
  char digit = '1';
  for (const std::string_view value : values) {
    const std::string marker{'@', digit++};
    for (std::size_t at = 0; (at = text.find(marker, at)) != std::string::npos;) {
      text.replace(at, marker.size(), value);
      at += value.size();
    }
  }
  return text;
}

constexpr char kImTurns[] = R"({%- for message in messages %}
{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor %}
)";
constexpr char kImPrompt[] = R"({%- if add_generation_prompt %}
{{- '<|im_start|>assistant\n' }}
{%- endif %}
)";

std::string chatml() {
  return std::string(kImTurns) + kImPrompt;
}

// ChatML that adds this system message to a conversation without one.
std::string chatml_with(std::string_view system) {
  return fill_in(R"({%- if messages[0].role != 'system' %}
{{- '<|im_start|>system\n@1<|im_end|>\n' }}
{%- endif %}
)",
                 {system}) +
         chatml();
}

// ChatML that keeps thoughts only in the answers after the user's last question.
std::string qwen3() {
  return std::string(R"({%- set ns = namespace(question = messages | length) %}
{%- for message in messages %}
{%- if message.role == 'user' and not (message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
{%- set ns.question = loop.index0 %}
{%- endif %}
{%- endfor %}
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\n' }}
{%- set content = message.content %}
{%- if message.role == 'assistant' %}
{%- set thoughts = '' %}
{%- if '</think>' in content %}
{%- set thoughts = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
{%- set content = content.split('</think>')[-1].lstrip('\n') %}
{%- endif %}
{%- if loop.index0 > ns.question and (loop.last or thoughts) %}
{{- '<think>\n' + thoughts.strip('\n') + '\n</think>\n\n' }}
{%- set content = content.lstrip('\n') %}
{%- endif %}
{%- endif %}
{{- content + '<|im_end|>\n' }}
{%- endfor %}
)") + kImPrompt;
}

constexpr char kLlama3Prompt[] = R"({{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }})";
constexpr char kLlama3Turns[] = R"({%- for message in @1 %}
{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' + message.content | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if @2 %}
@3
{%- endif %}
)";

// In Llama 3's first version `prompted` is true: it always begins an answer.
std::string llama3(std::string_view prompted) {
  return "{{- bos_token }}\n" + fill_in(kLlama3Turns, {"messages", prompted, kLlama3Prompt});
}

// Versions with the date in a system message. day: an expression.
std::string llama3_of(std::string_view day) {
  return fill_in(
             R"({{- bos_token }}
{%- set has_system = messages[0].role == 'system' %}
{{- '<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: ' }}
{{- @1 + '\n\n' + (messages[0].content | trim if has_system else '') + '<|eot_id|>' }}
)",
             {day}) +
         fill_in(kLlama3Turns, {"(messages[1:] if has_system else messages)",
                                "add_generation_prompt", kLlama3Prompt});
}

constexpr char kOutOfTurn[] =
    "{{- raise_exception('user and assistant must speak by turns, the user first; the system at "
    "most once, before them') }}";

std::string llama2() {
  return fill_in(R"({%- set has_system = messages[0].role == 'system' %}
{%- for message in (messages[1:] if has_system else messages) %}
{%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}
@1
{%- endif %}
{%- set content = message.content %}
{%- if loop.first and has_system %}
{%- set content = '<<SYS>>\n' + messages[0].content + '\n<</SYS>>\n\n' + content %}
{%- endif %}
{%- if message.role == 'user' %}
{{- bos_token + '[INST] ' + content | trim + ' [/INST]' }}
{%- elif message.role == 'assistant' %}
{{- ' ' + content | trim + ' ' + eos_token }}
{%- endif %}
{%- endfor %}
)",
                 {kOutOfTurn});
}

// question, answer: expressions for how the message `content` is written. with_system: the
// condition under which the system message is put before a question.
std::string mistral(std::string_view question, std::string_view answer,
                    std::string_view with_system) {
  return fill_in(R"({{- bos_token }}
{%- set has_system = messages[0].role == 'system' %}
{%- for message in (messages[1:] if has_system else messages) %}
{%- if (message.role == 'user') != (loop.index0 % 2 == 0) or message.role == 'system' %}
@4
{%- endif %}
{%- set content = message.content %}
{%- if message.role == 'user' %}
{%- if has_system and @3 %}
{%- set content = messages[0].content + '\n\n' + content %}
{%- endif %}
{{- @1 }}
{%- else %}
{{- @2 }}
{%- endif %}
{%- endfor %}
)",
                 {question, answer, with_system, kOutOfTurn});
}

// Versions before v1 have no system message.
std::string mistral_v0(std::string_view answer) {
  return fill_in(R"({%- if messages[0].role == 'system' %}
@1
{%- endif %}
)",
                 {kOutOfTurn}) +
         mistral("'[INST] ' + content + ' [/INST]'", answer, "false");
}

// Messages under the names of their roles. All except prompt: expressions for how the message
// `content` is written.
std::string by_role(std::string_view system, std::string_view question, std::string_view answer,
                    std::string_view prompt) {
  return fill_in(R"({%- for message in messages %}
{%- set content = message.content %}
{%- if message.role == 'system' %}
{{- @1 }}
{%- elif message.role == 'user' %}
{{- @2 }}
{%- else %}
{{- @3 }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '@4' }}
{%- endif %}
)",
                 {system, question, answer, prompt});
}

std::string vicuna() {
  return R"({{- bos_token }}
{%- if messages[0].role != 'system' %}
{{- "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, and polite answers to the user's questions. " }}
{%- endif %}
)" + by_role("content + ' '", "'USER: ' + content + ' '", "'ASSISTANT: ' + content + eos_token",
             "ASSISTANT:");
}

struct NamedTemplate {
  std::string_view name;
  std::string (*text)();
};

// Mistral's names are the versions of their tokenizers. zephyr is TinyLlama's too.
constexpr std::array kTemplates = {
    NamedTemplate{"chatml", chatml},
    NamedTemplate{"qwen2", [] { return chatml_with("You are a helpful assistant."); }},
    NamedTemplate{"qwen2.5",
                  [] {
                    return chatml_with(
                        "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.");
                  }},
    NamedTemplate{"qwen3", qwen3},
    NamedTemplate{"smollm2",
                  [] {
                    return chatml_with(
                        "You are a helpful AI assistant named SmolLM, trained by Hugging Face");
                  }},
    NamedTemplate{"llama2", llama2},
    NamedTemplate{"llama3", [] { return llama3("add_generation_prompt"); }},
    NamedTemplate{"llama3.0", [] { return llama3("true"); }},
    NamedTemplate{"llama3.1", [] { return llama3_of("'26 Jul 2024'"); }},
    NamedTemplate{"llama3.2", [] { return llama3_of("strftime_now('%d %b %Y')"); }},
    NamedTemplate{"mistral-v0.1", [] { return mistral_v0("content + eos_token + ' '"); }},
    NamedTemplate{"mistral-v0.2", [] { return mistral_v0("content + eos_token"); }},
    NamedTemplate{"mistral-v1",
                  [] {
                    return mistral("' [INST] ' + content + ' [/INST]'", "' ' + content + eos_token",
                                   "loop.first");
                  }},
    NamedTemplate{"mistral-v3",
                  [] {
                    return mistral("'[INST] ' + content + '[/INST]'",
                                   "' ' + content | trim + eos_token", "loop.last");
                  }},
    NamedTemplate{"mistral-v3-tekken",
                  [] {
                    return mistral("'[INST]' + content + '[/INST]'", "content + eos_token",
                                   "loop.last");
                  }},
    NamedTemplate{"mistral-v7",
                  [] {
                    return "{{- bos_token }}\n" +
                           by_role("'[SYSTEM_PROMPT] ' + content + '[/SYSTEM_PROMPT]'",
                                   "'[INST] ' + content + '[/INST]'", "' ' + content + eos_token",
                                   "");
                  }},
    NamedTemplate{"vicuna", vicuna},
    NamedTemplate{"vicuna-1.1",
                  [] {
                    return by_role("content + '\\n\\n'", "'USER: ' + content + '\\n'",
                                   "'ASSISTANT: ' + content + '</s>\\n'", "ASSISTANT:");
                  }},
    NamedTemplate{"vicuna-orca",
                  [] {
                    return by_role("'SYSTEM: ' + content + '\\n'", "'USER: ' + content + '\\n'",
                                   "'ASSISTANT: ' + content + '</s>\\n'", "ASSISTANT:");
                  }},
    NamedTemplate{"zephyr",
                  [] {
                    return by_role("'<|system|>\\n' + content + eos_token + '\\n'",
                                   "'<|user|>\\n' + content + eos_token + '\\n'",
                                   "'<|assistant|>\\n' + content + eos_token + '\\n'",
                                   "<|assistant|>\\n");
                  }},
};

}  // namespace

std::optional<std::string> named_chat_template(std::string_view name) {
  const auto* at = std::ranges::find(kTemplates, name, &NamedTemplate::name);
  return at == kTemplates.end() ? std::nullopt : std::optional(at->text());
}

std::string chat_template_names() {
  std::string names;
  for (const NamedTemplate& one : kTemplates) {
    names += (names.empty() ? "" : ", ") + std::string(one.name);
  }
  return names;
}

}  // namespace outrider
