// Splits a chat template into tokens, as jinja2 does with trim_blocks and lstrip_blocks.
//
// Thread rule: a pure function. Errors: a Failure names the line.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/serving/conversation/jinja/steps.h"

namespace outrider::jinja {

enum class TokenKind {
  kData,           // text between tags, as it is printed
  kBlockBegin,     // {%
  kBlockEnd,       // %}
  kVariableBegin,  // {{
  kVariableEnd,    // }}
  kName,
  kString,
  kInteger,
  kReal,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;  // of data, a name, an operator; a string's content
  std::int64_t integer = 0;
  double real = 0;
  int line = 1;

  bool is(TokenKind other, std::string_view content) const {
    return kind == other && text == content;
  }
};

// The last token is kEnd. Takes steps for every byte and token.
std::vector<Token> tokenize(std::string_view source, Steps& steps);

}  // namespace outrider::jinja
