// What a target says of itself before a prompt is written for it. The wire form is DescribeReply of
// proto/outrider/v1.
//
// A struct here has the shape of its message but no validity: the receiver checks it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

namespace outrider {

struct TargetDescription {
  std::string model_name = {};
  std::string fingerprint = {};     // as Opened's
  std::string tokenizer_hash = {};  // as Open's
  // Jinja texts by name. Empty: there are none, or they are too large to be told.
  std::map<std::string, std::string> templates = {};
  std::optional<std::string> bos = {};  // texts of the tokens that templates name
  std::optional<std::string> eos = {};
  std::string chosen = {};         // by the operator instead: a form or a template; empty: none
  std::string template_hash = {};  // of the one that prompts are written by; empty: there is none
  std::string server_version = {};

  friend bool operator==(const TargetDescription&, const TargetDescription&) = default;
};

// Bounds of the texts. What is beyond them is not sent, and refused where it comes.
inline constexpr std::size_t kMaxTemplates = 64;
inline constexpr std::size_t kMaxTemplateBytes = 256 << 10;  // of all together, names included
inline constexpr std::size_t kMaxTokenBytes = 1 << 10;

}  // namespace outrider
