// SPDX-License-Identifier: Apache-2.0
#include "common/serving/record/record_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include "common/base/json_record.h"
#include "common/base/output_file.h"
#include "common/base/sha256.h"
#include "common/engine/sampling/row_digest.h"
#include "common/serving/credentials/signing_key.h"

namespace outrider {
namespace {

constexpr std::size_t kReadAtOnce = std::size_t{1} << 16;
constexpr std::size_t kDigestDigits = 16;
constexpr Position kMaxEnd = std::numeric_limits<std::int32_t>::max();

std::string mib(std::size_t bytes) {
  return std::to_string(bytes >> 20) + " MiB";
}

bool is_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string place(const RecordStretch& stretch) {
  return "stretch " + std::to_string(stretch.stretch) + " at position " +
         std::to_string(stretch.position);
}

Status check_terms(const RecordTerms& terms) {
  if (terms.version != kRecordVersion) {
    return data_loss("it is of version " + std::to_string(terms.version) +
                     ", and this program reads version " + std::to_string(kRecordVersion));
  }
  if (!is_hex(terms.id, 32)) return data_loss("its id is not 32 hex digits");
  if (!terms.signer.empty() && !is_hex(terms.signer, kPublicKeyDigits)) {
    return data_loss("its signer is not a public key");
  }
  if (terms.constraint_kind > static_cast<std::uint32_t>(ConstraintKind::kFramed)) {
    return data_loss("constraint_kind " + std::to_string(terms.constraint_kind) + " is unknown");
  }
  OUTRIDER_RETURN_IF_ERROR(validate(terms.sampling()));
  OUTRIDER_RETURN_IF_ERROR(validate(terms.settings(), 0));
  if (terms.prompt.has_value() == terms.prompt_hash.has_value()) {
    return data_loss("it has not one of prompt and prompt_hash");
  }
  if (terms.prompt_hash && !is_sha256_hex(*terms.prompt_hash)) {
    return data_loss("its prompt_hash is none");
  }
  const bool counts = !terms.prompt || std::ssize(*terms.prompt) == terms.prompt_tokens;
  if (terms.prompt_tokens < 1 || !counts || terms.end_position <= terms.prompt_tokens ||
      terms.end_position > kMaxEnd) {
    return data_loss("prompt, prompt_tokens and end_position do not fit each other");
  }
  return {};
}

// expected: where it goes on.
Status check_stretch(const RecordStretch& stretch, Position expected, const RecordTerms& terms) {
  if (stretch.position != expected || stretch.tokens < 1) {
    return data_loss(place(stretch) + " does not go on at position " + std::to_string(expected));
  }
  const bool by_hash = terms.prompt_hash.has_value();
  if (stretch.ids.has_value() == by_hash || stretch.ids_hash.has_value() != by_hash) {
    return data_loss(place(stretch) + " has not one of ids and ids_hash, as the prompt has");
  }
  const bool counts =
      stretch.ids ? std::ssize(*stretch.ids) == stretch.tokens : is_sha256_hex(*stretch.ids_hash);
  const Position room = terms.end_position - stretch.position;
  if (!counts || stretch.tokens > room) {
    return data_loss(place(stretch) + " has " + std::to_string(stretch.tokens) +
                     " tokens by its count, but not by its ids or not within end_position");
  }
  const Position wanted = digests_between(expected, expected + stretch.tokens);
  const bool whole = stretch.digests.empty() || std::ssize(stretch.digests) == wanted;
  if (!whole || !std::ranges::all_of(stretch.digests, [](const std::string& digest) {
        return is_hex(digest, kDigestDigits);
      })) {
    return data_loss(place(stretch) + " has not " + std::to_string(wanted) + " digests, nor none");
  }
  return {};
}

Status check_signature(const SignedLine& line, const RecordStretch& stretch,
                       const std::string& signer) {
  if (signer.empty() && line.signature.empty()) return {};
  if (line.signature.empty()) return data_loss(place(stretch) + " is not signed");
  if (signer.empty()) return data_loss(place(stretch) + " is signed, and the record names no key");
  if (is_signed_by(signer, signed_text(line.line), line.signature)) return {};
  return data_loss(place(stretch) +
                   " has a signature that is wrong: it or a line before it was "
                   "changed, or another key signed it");
}

}  // namespace

Result<RecordReader> RecordReader::open(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!file.valid()) return not_found(path + ": " + errno_message(errno));
  remember_input(path);
  return RecordReader(path, std::move(file));
}

Result<bool> RecordReader::read_line() {
  line_.clear();
  ended_ = false;
  while (true) {
    const std::size_t end = buffer_.find('\n', at_);
    const std::size_t length = std::min(end, buffer_.size()) - at_;
    if (line_.size() + length > kMaxRecordLine) {
      return invalid_argument(path_ + ", line " + std::to_string(number_ + 1) +
                              ": is longer than " + mib(kMaxRecordLine) + "; this is no record");
    }
    line_.append(buffer_, at_, length);
    if (end != std::string::npos) {
      at_ = end + 1;
      ended_ = true;
      break;
    }
    at_ = buffer_.size();
    if (at_end_) break;
    buffer_.resize(kReadAtOnce);
    at_ = 0;
    const ssize_t got = ::read(file_.get(), buffer_.data(), buffer_.size());
    const int error = errno;
    buffer_.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && error != EINTR) return unavailable(path_ + ": " + errno_message(error));
    at_end_ = got == 0;
  }
  if (line_.empty() && !ended_) return false;
  ++number_;
  return true;
}

Result<std::optional<RecordText>> RecordReader::next() {
  RecordText text;
  std::size_t bytes = 0;
  while (true) {
    if (!std::exchange(is_kept_, false)) {
      OUTRIDER_ASSIGN_OR_RETURN(const bool there, read_line());
      if (!there) break;
    }
    const bool begins = line_.starts_with(kRecordBegins);
    if (begins && !text.lines.empty()) {
      is_kept_ = true;
      break;
    }
    if (!begins && text.lines.empty()) {
      return invalid_argument(path_ + ", line " + std::to_string(number_) +
                              ": begins no record. Remedy: name a file that --record wrote");
    }
    if (begins) text.first_line = number_;
    bytes += line_.size();
    if (bytes > kMaxRecordBytes) {
      return invalid_argument(path_ + ", line " + std::to_string(text.first_line) +
                              ": this record is longer than " + mib(kMaxRecordBytes));
    }
    text.lines.push_back(line_);
    text.is_torn = !ended_;
  }
  if (text.lines.empty()) return std::optional<RecordText>();
  return std::optional(std::move(text));
}

Result<RecordedAnswer> check_record(const RecordText& text, const std::string& signer) {
  const auto line_name = [&](std::size_t i) {
    return "line " + std::to_string(text.first_line + i);
  };
  const std::size_t count = text.lines.size();
  if (text.is_torn) return data_loss(line_name(count - 1) + " has no end: the file was cut there");
  RecordedAnswer answer;
  OUTRIDER_ASSIGN_OR_RETURN(const Json head, parse_json(text.lines[0], line_name(0)));
  OUTRIDER_ASSIGN_OR_RETURN(answer.terms, read_json<RecordTerms>(head, line_name(0)));
  OUTRIDER_RETURN_IF_ERROR(check_terms(answer.terms));
  const std::string& named = answer.terms.signer;
  if (!signer.empty() && named != signer) {
    return data_loss(named.empty() ? "it is not signed" : "it is signed by another key, " + named);
  }
  Position end = answer.terms.prompt_tokens;
  for (std::size_t i = 1; i < count; ++i) {
    const SignedLine line = without_signature(text.lines[i]);
    OUTRIDER_ASSIGN_OR_RETURN(const Json json, parse_json(line.line, line_name(i)));
    OUTRIDER_ASSIGN_OR_RETURN(RecordStretch stretch, read_json<RecordStretch>(json, line_name(i)));
    if (stretch.stretch != i - 1 || stretch.before != line_hash(text.lines[i - 1])) {
      return data_loss(line_name(i) +
                       " does not follow the line before: one of them was changed, " +
                       "moved or left out");
    }
    OUTRIDER_RETURN_IF_ERROR(check_stretch(stretch, end, answer.terms));
    OUTRIDER_RETURN_IF_ERROR(check_signature(line, stretch, named));
    if (stretch.ending.empty() == (i + 1 == count)) {
      return data_loss(i + 1 == count ? "it has no end: stretches are missing"
                                      : place(stretch) + " ends it, and more follow");
    }
    end += stretch.tokens;
    answer.stretches.push_back(std::move(stretch));
  }
  if (answer.stretches.empty()) return data_loss("it has no end: stretches are missing");
  answer.is_signed = !named.empty();
  return answer;
}

Status bring_texts(const RecordTexts& texts, RecordedAnswer& answer) {
  RecordTerms& terms = answer.terms;
  if (!terms.prompt_hash || texts.id != terms.id)
    return data_loss("the texts are of another record");
  const Position begin = terms.prompt_tokens;
  if (std::ssize(texts.prompt) != begin || std::ssize(texts.answer) != answer.end() - begin ||
      salted_hash(texts.salt, texts.prompt) != *terms.prompt_hash) {
    return data_loss("the prompt is not the one that was hashed");
  }
  for (RecordStretch& stretch : answer.stretches) {
    const auto ids = std::span(texts.answer)
                         .subspan(static_cast<std::size_t>(stretch.position - begin),
                                  static_cast<std::size_t>(stretch.tokens));
    if (salted_hash(texts.salt, ids) != *stretch.ids_hash) {
      return data_loss(place(stretch) + " has other tokens than those that were hashed");
    }
    stretch.ids.emplace(ids.begin(), ids.end());
  }
  terms.prompt = texts.prompt;
  return {};
}

Status ReplayCheck::add(const RecordedAnswer& answer) {
  if (seen_.insert(answer.terms.id).second) return {};
  return data_loss("it stands in the file twice: a replay");
}

}  // namespace outrider
