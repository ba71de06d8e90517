// Records answers while they are decoded, and writes what was asked for: into a file of records, or
// into the answer that a client gets.
//
//   OUTRIDER_ASSIGN_OR_RETURN(auto recorder, Recorder::open({.file = "answers.jsonl"}));
//   AnswerRecording recording = recorder->begin(record_terms(open, prompt));
//   (recording.on_opened(opened) (recording.on_verdict(verdict, taken))*)*
//   const RecordLines lines = recording.finish("stop_token");
//   OUTRIDER_RETURN_IF_ERROR(recorder->append(lines));
//
// Thread rule: a Recorder from any thread; an AnswerRecording by one at a time. Ownership: the
// Recorder outlives what it began. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/posix.h"
#include "common/base/status.h"
#include "common/decoding/protocol/messages.h"
#include "common/serving/credentials/signing_key.h"
#include "common/serving/record/record.h"

namespace outrider {

struct RecordOptions {
  std::string file = {};     // grows by a record with each answer; empty: none
  std::string key = {};      // file of the key that signs; empty: records are not signed
  bool hashes_only = false;  // salted hashes in place of token ids, which go to FILE.texts
  std::string program = {};  // that records: its name and version
};

struct RecordLines {
  std::vector<std::string> lines;  // without their ends; none: no token was decided
  std::string texts;               // line of RecordTexts; empty: the record has the ids
};

class AnswerRecording final {
 public:
  // key: outlives this; null: nothing is signed.
  AnswerRecording(RecordTerms terms, const SigningKey* key, bool hashes_only);

  // A stream to a verifier has opened: what it decides is a stretch.
  void on_opened(const Opened& opened);
  // The first `taken` of the verdict's tokens became text; they go on where the last ones ended.
  void on_verdict(const Verdict& verdict, std::size_t taken);
  // Once, at the answer's end, in the words of the edge's Ending.
  RecordLines finish(const std::string& ending);

 private:
  RecordTerms terms_;
  const SigningKey* const key_;
  const std::string salt_;  // empty: ids are not hashed
  Position end_;            // of the text
  std::vector<RecordStretch> stretches_;
};

class Recorder final {
 public:
  // Errors: those of the files; INVALID_ARGUMENT for hashes_only
  // without a file.
  static Result<std::unique_ptr<Recorder>> open(RecordOptions options);

  // A record of each answer is wanted.
  bool has_file() const { return file_.valid(); }
  AnswerRecording begin(RecordTerms terms) const;
  // Adds a record to the file; does nothing without one. An error is told once: nothing is written
  // behind a record that is not whole, as where the disk is full.
  Status append(const RecordLines& lines);

 private:
  explicit Recorder(RecordOptions options) : options_(std::move(options)) {}

  const RecordOptions options_;
  std::optional<SigningKey> key_;
  UniqueFd file_;
  UniqueFd texts_;
  Mutex mu_;
  bool ended_ OUTRIDER_GUARDED_BY(mu_) = false;
};

}  // namespace outrider
