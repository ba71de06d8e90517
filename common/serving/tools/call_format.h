// The forms in which models write tool calls into their text, one row each.
//
// Thread rule: constant. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace outrider {

enum class CallArguments : std::uint8_t {
  kJson,    // a JSON object
  kTagged,  // each argument between marks of its own
  kPython,  // calls as Python writes them: [move(x=1), stop()]
};

// An empty mark is not written in that form.
struct CallFormat {
  std::string_view name;  // as --tool-call-parser takes it: vLLM's name where it has the form
  CallArguments arguments = CallArguments::kJson;
  std::string_view section = {};      // is written before the first call,
  std::string_view section_end = {};  // and behind the last one
  std::string_view open = {};         // begins a call
  std::string_view name_end = {};     // follows the name, where that stands before the arguments
  std::string_view close = {};        // ends a call
  bool bare = false;                  // a call may begin the answer without `open`,
  bool left_out = false;  // or models leave `open` out: what is read, never what is asked
  std::string_view key = {}, key_end = {}, value = {}, value_end = {};  // around each, of kTagged
  std::string_view text_name = {};  // the name under which this form writes plain text
  std::string_view id_mark = {};    // follows the name, before an id of the model's own
  std::string_view name_prefix = {}, index_mark = {};  // around the name: functions.NAME:0

  // Whether an answer that begins with a call of a known tool is one without `open`.
  bool reads_unmarked() const { return bare || left_out; }
  // All marks that are not empty.
  std::vector<std::string_view> marks() const;
};

std::span<const CallFormat> call_formats();
// Null: there is none of that name.
const CallFormat* find_call_format(std::string_view name);
// "llama3_json, hermes, .."
std::string call_format_names();

}  // namespace outrider
