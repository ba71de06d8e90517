// The bounds of a form before it is compiled: bounds of size, depth, alternatives and repeats, and
// for a JSON schema only keywords that the compiled grammar enforces. A form comes from a client,
// and a keyword that was passed over in silence would make answers that the schema refuses.
//
// Thread rule: pure functions. Errors: INVALID_ARGUMENT, and UNIMPLEMENTED for what is right in
// itself and not enforced here; both name the place. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace outrider {

struct FormBounds {
  static constexpr int kMaxDepth = 48;                 // of schemas, and of parentheses
  static constexpr std::size_t kMaxSchemas = 2000;     // in one schema
  static constexpr std::size_t kMaxValues = 4000;      // of enums and alternatives, in one schema
  static constexpr std::size_t kMaxProperties = 512;   // of one object
  static constexpr std::size_t kMaxRepeats = 1 << 16;  // of a character, an item or a part
  static constexpr std::size_t kMaxPattern = 4096;     // bytes of a regular expression
  static constexpr std::size_t kMaxFrames = 128;       // of one form
};

// The schema as it is compiled. It is narrowed to what cannot be wrong: an object with named
// properties has no others; where nothing is said of properties or items, they may be any.
Result<std::string> checked_schema(std::string_view text);

// The same for each schema of a form of kFramed: {"frames": [[TEXT, SCHEMA, TEXT], ..]}, and the
// answer is one of these frames. Further members are:
//   "several": true     there may be several
//   "instead": SCHEMA   the answer is frames, or a value of this schema
//   "trigger": TEXT     with which all frames begin: the answer is free text, in which a frame
//                       stands wherever the trigger comes; behind the first one the answer ends,
//                       unless there may be several
Result<std::string> checked_frames(std::string_view text);

// The parts of all groups and repeats together, nested ones multiplied.
Status check_regex(std::string_view pattern);

Status check_grammar(std::string_view rules);

}  // namespace outrider
