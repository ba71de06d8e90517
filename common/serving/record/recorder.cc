// SPDX-License-Identifier: Apache-2.0
#include "common/serving/record/recorder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "common/base/json_record.h"
#include "common/base/output_file.h"
#include "common/base/random_id.h"
#include "common/engine/sampling/row_digest.h"

namespace outrider {
namespace {

constexpr OutputKind kRecordFile{
    .name = "a file of records",
    .is_earlier = [](std::string_view content) { return content.starts_with(kRecordBegins); },
    .is_state = true,
    .is_secret = true,
    .is_appended = true};
constexpr OutputKind kTextsFile{
    .name = "a file of records' texts",
    .is_earlier = [](std::string_view content) { return content.starts_with(R"({"answer":)"); },
    .is_state = true,
    .is_secret = true,
    .is_appended = true};

// For its owner only: prompts and answers stand in it.
Result<UniqueFd> open_to_append(const std::string& path, const OutputKind& kind) {
  OUTRIDER_RETURN_IF_ERROR(OutputFile::check(path, kind));
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600));
  if (file.valid()) return file;
  return invalid_argument(path + ": " + errno_message(errno));
}

// All of it or, as far as the system allows, none.
Status append_to(int file, std::string_view text, const std::string& path) {
  struct stat before {};
  const bool known = fstat(file, &before) == 0 && S_ISREG(before.st_mode);
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int error = errno;
      const bool cut = known && ftruncate(file, before.st_size) == 0;
      return resource_exhausted(path + ": " + errno_message(error) + "; the file ends " +
                                (cut ? "with the record before" : "in the middle of a record"));
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

}  // namespace

AnswerRecording::AnswerRecording(RecordTerms terms, const SigningKey* key, bool hashes_only)
    : terms_(std::move(terms)),
      key_(key),
      salt_(hashes_only ? random_id() : ""),
      end_(terms_.prompt_tokens) {
  terms_.id = random_id();
  if (key_ != nullptr) terms_.signer = key_->public_key();
}

void AnswerRecording::on_opened(const Opened& opened) {
  if (!stretches_.empty() && stretches_.back().tokens == 0) stretches_.pop_back();
  // A server tells its version, a target in this process does not.
  const bool here = opened.server_version.empty();
  stretches_.push_back({.stretch = static_cast<std::uint32_t>(stretches_.size()),
                        .verifier = here ? "device" : "server " + opened.server_version,
                        .model = opened.model_name,
                        .dtype = opened.dtype,
                        .kv_dtype = opened.kv_dtype,
                        .fingerprint = opened.fingerprint,
                        .arithmetic_id = opened.arithmetic_id,
                        .position = end_,
                        .ids = std::vector<TokenId>()});
}

void AnswerRecording::on_verdict(const Verdict& verdict, std::size_t taken) {
  OUTRIDER_CHECK(!stretches_.empty() && taken <= verdict.tokens.size());
  RecordStretch& stretch = stretches_.back();
  const Position end = end_ + static_cast<Position>(taken);
  const auto digests = static_cast<std::size_t>(digests_between(end_, end));
  for (std::size_t i = 0; i < digests && i < verdict.digests.size(); ++i) {
    stretch.digests.push_back(digest_text(verdict.digests[i]));
  }
  stretch.ids->insert(stretch.ids->end(), verdict.tokens.begin(),
                      verdict.tokens.begin() + static_cast<std::ptrdiff_t>(taken));
  stretch.tokens += static_cast<Position>(taken);
  end_ = end;
}

RecordLines AnswerRecording::finish(const std::string& ending) {
  RecordLines written;
  if (!stretches_.empty() && stretches_.back().tokens == 0) stretches_.pop_back();
  if (stretches_.empty()) return written;
  stretches_.back().ending = ending;
  if (!salt_.empty()) {
    RecordTexts texts{.id = terms_.id, .salt = salt_, .prompt = *std::exchange(terms_.prompt, {})};
    terms_.prompt_hash = salted_hash(salt_, texts.prompt);
    for (RecordStretch& stretch : stretches_) {
      const std::vector<TokenId> ids = *std::exchange(stretch.ids, {});
      stretch.ids_hash = salted_hash(salt_, ids);
      texts.answer.insert(texts.answer.end(), ids.begin(), ids.end());
    }
    written.texts = write_json(texts).dump();
  }
  written.lines.push_back(to_line(terms_));
  for (RecordStretch& stretch : stretches_) {
    stretch.before = line_hash(written.lines.back());
    std::string line = to_line(stretch);
    if (key_ != nullptr) line = with_signature(line, key_->sign(signed_text(line)));
    written.lines.push_back(std::move(line));
  }
  return written;
}

Result<std::unique_ptr<Recorder>> Recorder::open(RecordOptions options) {
  if (options.hashes_only && options.file.empty()) {
    return invalid_argument(
        "--record-hashes-only needs --record FILE, beside which the texts are kept");
  }
  std::unique_ptr<Recorder> self(new Recorder(std::move(options)));
  const RecordOptions& wanted = self->options_;
  if (!wanted.key.empty()) {
    Result<SigningKey> key = SigningKey::read(wanted.key);
    if (!key.ok()) return key.status().with_context("--record-key");
    self->key_ = *std::move(key);
  }
  if (wanted.file.empty()) return self;
  OUTRIDER_ASSIGN_OR_RETURN(self->file_, open_to_append(wanted.file, kRecordFile));
  if (wanted.hashes_only) {
    OUTRIDER_ASSIGN_OR_RETURN(self->texts_, open_to_append(wanted.file + ".texts", kTextsFile));
  }
  return self;
}

AnswerRecording Recorder::begin(RecordTerms terms) const {
  terms.program = options_.program;
  return {std::move(terms), key_ ? &*key_ : nullptr, options_.hashes_only};
}

Status Recorder::append(const RecordLines& lines) {
  if (!has_file() || lines.lines.empty()) return {};
  std::string text;
  for (const std::string& line : lines.lines) text += line + "\n";
  const MutexLock lock(mu_);
  if (ended_) return {};
  Status written = append_to(file_.get(), text, options_.file);
  if (written.ok() && !lines.texts.empty()) {
    written = append_to(texts_.get(), lines.texts + "\n", options_.file + ".texts");
  }
  ended_ = !written.ok();
  return written;
}

}  // namespace outrider
