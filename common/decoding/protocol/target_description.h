// The facts that a target reports about itself before a prompt is written for it. The wire form is
// DescribeReply of proto/outrider/v1.
//
// A struct here has the shape of its message but no validity: the receiver checks it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "common/decoding/request/sampling_defaults.h"

namespace outrider {

struct TargetDescription {
  std::string model_name = {};
  std::string fingerprint = {};     // as Opened.fingerprint
  std::string tokenizer_hash = {};  // as Open.tokenizer_hash
  // Jinja texts by name. Empty: there are none, or they are too large to send.
  std::map<std::string, std::string> templates = {};
  std::optional<std::string> bos = {};  // texts of the tokens that templates name
  std::optional<std::string> eos = {};
  std::string chosen = {};  // the form or template that the operator chose instead; empty: none
  std::string template_hash =
      {};  // hash of the template that prompts are written with; empty: there is none
  std::string server_version = {};
  SamplingDefaults sampling = {};  // where requests and flags are silent

  friend bool operator==(const TargetDescription&, const TargetDescription&) = default;
};

// Bounds of the texts. Larger ones are not sent, and are refused on receipt.
inline constexpr std::size_t kMaxTemplates = 64;
inline constexpr std::size_t kMaxTemplateBytes =
    256 << 10;  // of all templates together, names included
inline constexpr std::size_t kMaxTokenBytes = 1 << 10;

}  // namespace outrider
