// Reads a recorded answer again with its tokens given, and says whether this target would have
// chosen them: all rows of 64 positions are one pass, as of a prompt, and each token and digest is
// compared (docs/audit.md). It works because a row has the same bits alone and beside others
// (docs/row-invariance.md).
//
// Thread rule: the thread that owns the models. Ownership: models and compiler outlive the call.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/engine/constraint/constraint_compiler.h"
#include "common/engine/model/model.h"
#include "common/serving/record/record_reader.h"

namespace outrider {

// The rows of one pass.
inline constexpr std::size_t kAuditedRows = 64;

// The target by which records are audited.
struct AuditTarget {
  std::vector<Model*> models;  // itself, or all its levels, the full one first
  std::string tokenizer_hash;
  std::string template_hash;
  ConstraintCompiler* constraints = nullptr;  // null: answers with a form cannot be audited
};

// The numbers of tokens and digests that an audit has compared.
struct AuditCounts {
  std::size_t tokens = 0;
  std::size_t digests = 0;
  std::size_t without_digests = 0;  // positions that should have one, by verifiers that gave none

  AuditCounts& operator+=(const AuditCounts& other);
};

// answer: has passed check_record(), and has its ids. DATA_LOSS in one sentence, which names the
// first position where a token, a digest, a setting or an id differs; other errors are those of the
// model: nothing is known of the answer.
Result<AuditCounts> audit(const RecordedAnswer& answer, const AuditTarget& target);

}  // namespace outrider
