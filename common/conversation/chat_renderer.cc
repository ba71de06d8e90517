// SPDX-License-Identifier: Apache-2.0
#include "common/conversation/chat_renderer.h"

#include <algorithm>

#include "common/text/pipeline/unicode.h"
#include "common/text/pipeline/utf8.h"

namespace outrider {
namespace {

// str.strip() of Python, whose white space has four control characters more than Unicode's.
std::string_view strip_left(std::string_view text) {
  while (!text.empty()) {
    const Utf8Character c = utf8_at(text, 0);
    if (!is_white_space(c.code) && (c.code < 0x1C || c.code > 0x1F)) break;
    text.remove_prefix(c.length);
  }
  return text;
}

std::string_view strip_right(std::string_view text) {
  while (!text.empty()) {
    const char32_t code = last_character(text);
    if (!is_white_space(code) && (code < 0x1C || code > 0x1F)) break;
    std::string encoded;
    append_utf8(code, encoded);
    text.remove_suffix(std::min(encoded.size(), text.size()));
  }
  return text;
}

std::string strip(std::string_view text) {
  return std::string(strip_right(strip_left(text)));
}

// What stands before an answer.
std::string_view generation_prompt_of(ChatFamily family) {
  switch (family) {
    case ChatFamily::kLlama2:
      return "";
    case ChatFamily::kLlama3:
      return "<|start_header_id|>assistant<|end_header_id|>\n\n";
    case ChatFamily::kVicuna:
      return "ASSISTANT:";
    case ChatFamily::kChatml:
      return "<|im_start|>assistant\n";
    case ChatFamily::kZephyr:
      return "<|assistant|>\n";
  }
  return "";
}

}  // namespace

void ChatRenderer::start() {
  if (family_ == ChatFamily::kLlama3 || family_ == ChatFamily::kVicuna) literal(bos_);
}

void ChatRenderer::system(std::string_view text) {
  switch (family_) {
    case ChatFamily::kLlama2:
      system_ = text;
      break;
    case ChatFamily::kLlama3:
      header("system", strip(text));
      break;
    case ChatFamily::kVicuna:
      message(text);
      literal(" ");
      break;
    case ChatFamily::kChatml:
    case ChatFamily::kZephyr:
      turn("system", text);
      break;
  }
}

void ChatRenderer::user(std::string_view text) {
  switch (family_) {
    case ChatFamily::kLlama2:
      llama2_user(text);
      break;
    case ChatFamily::kLlama3:
      header("user", strip(text));
      break;
    case ChatFamily::kVicuna:
      literal("USER: ");
      message(text);
      literal(" ");
      break;
    case ChatFamily::kChatml:
    case ChatFamily::kZephyr:
      turn("user", text);
      break;
  }
}

void ChatRenderer::assistant(std::string_view text) {
  switch (family_) {
    case ChatFamily::kLlama2:
      literal(" ");
      message(strip(text));
      literal(" " + eos_);
      break;
    case ChatFamily::kLlama3:
      header("assistant", strip(text));
      break;
    case ChatFamily::kVicuna:
      literal("ASSISTANT: ");
      message(text);
      literal(eos_);
      break;
    case ChatFamily::kChatml:
    case ChatFamily::kZephyr:
      turn("assistant", text);
      break;
  }
}

void ChatRenderer::generation_prompt() {
  literal(generation_prompt_of(family_));
}

void ChatRenderer::end_turn() {
  switch (family_) {
    case ChatFamily::kLlama2:
    case ChatFamily::kVicuna:
      literal(eos_);
      break;
    case ChatFamily::kLlama3:
      literal("<|eot_id|>");
      break;
    case ChatFamily::kChatml:
      literal("<|im_end|>\n");
      break;
    case ChatFamily::kZephyr:
      literal(eos_ + "\n");
      break;
  }
}

void ChatRenderer::add(std::string_view text, bool is_template) {
  if (text.empty()) return;
  if (segments_.empty() || segments_.back().is_template != is_template) {
    segments_.push_back({"", is_template});
  }
  segments_.back().text += text;
}

void ChatRenderer::header(std::string_view role, std::string_view text) {
  literal("<|start_header_id|>" + std::string(role) + "<|end_header_id|>\n\n");
  message(text);
  literal("<|eot_id|>");
}

void ChatRenderer::turn(std::string_view role, std::string_view text) {
  const std::string name(role);
  literal(family_ == ChatFamily::kChatml ? "<|im_start|>" + name + "\n" : "<|" + name + "|>\n");
  message(text);
  end_turn();
}

// The system's message is part of the first user's, and both are stripped as one.
void ChatRenderer::llama2_user(std::string_view text) {
  literal(bos_ + "[INST] ");
  if (system_) {
    literal("<<SYS>>\n");
    message(*system_);
    const std::string_view content = strip_right(text);
    literal(content.empty() ? "\n<</SYS>>" : "\n<</SYS>>\n\n");
    message(content);
    system_.reset();
  } else {
    message(strip(text));
  }
  literal(" [/INST]");
}

}  // namespace outrider
