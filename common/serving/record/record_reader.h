// Reads a file of records, which may come from anybody: line by line within bounds, and each record
// whole. What it finds wrong in a record is one sentence, and the next record is read all the same.
//
//   OUTRIDER_ASSIGN_OR_RETURN(RecordReader reader, RecordReader::open(path));
//   while (true) {
//     OUTRIDER_ASSIGN_OR_RETURN(const std::optional<RecordText> text, reader.next());
//     if (!text) break;
//     const Result<RecordedAnswer> answer = check_record(*text, signer);
//   }
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "common/base/posix.h"
#include "common/base/status.h"
#include "common/serving/record/record.h"

namespace outrider {

// Bytes of a line, and of a record: a prompt of four million tokens.
inline constexpr std::size_t kMaxRecordLine = std::size_t{32} << 20;
inline constexpr std::size_t kMaxRecordBytes = 2 * kMaxRecordLine;

// The lines of one record, as they stand in the file.
struct RecordText {
  std::size_t first_line = 1;  // its number
  std::vector<std::string> lines;
  bool is_torn = false;  // the last line has no end
};

class RecordReader final {
 public:
  static Result<RecordReader> open(const std::string& path);

  // Nothing at the file's end. Errors: INVALID_ARGUMENT for a line or record beyond the bounds,
  // and for a file that begins with none; UNAVAILABLE if it cannot be read.
  Result<std::optional<RecordText>> next();

 private:
  RecordReader(std::string path, UniqueFd file) : path_(std::move(path)), file_(std::move(file)) {}
  // False at the end.
  Result<bool> read_line();

  std::string path_;
  UniqueFd file_;
  std::string buffer_;    // read and not yet taken
  std::size_t at_ = 0;    // in it
  bool at_end_ = false;   // of the file
  std::string line_;      // the last one that was read
  bool ended_ = false;    // with a line end
  bool is_kept_ = false;  // line_ begins the next record
  std::size_t number_ = 0;
};

struct RecordedAnswer {
  RecordTerms terms;
  std::vector<RecordStretch> stretches;  // at least one
  bool is_signed = false;                // all stretches, by terms.signer

  std::string ending() const { return stretches.back().ending; }
  Position end() const { return stretches.back().position + stretches.back().tokens; }
};

// Form, chain and signatures of one record. signer: the public key that must have signed; empty: a
// record may be signed by any key or by none. Errors: DATA_LOSS in one sentence.
Result<RecordedAnswer> check_record(const RecordText& text, const std::string& signer);

// Puts the texts in the place of a record's hashes. DATA_LOSS if they are others.
Status bring_texts(const RecordTexts& texts, RecordedAnswer& answer);

// Records that were seen, by their ids: none may come twice.
class ReplayCheck final {
 public:
  // DATA_LOSS if it was there before.
  Status add(const RecordedAnswer& answer);

 private:
  std::unordered_set<std::string> seen_;
};

}  // namespace outrider
