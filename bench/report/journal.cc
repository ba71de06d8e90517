// SPDX-License-Identifier: Apache-2.0
#include "bench/report/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "common/base/files.h"
#include "common/base/json_record.h"
#include "common/base/output_file.h"
#include "common/base/posix.h"

namespace outrider {
namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{4} << 30;

// The fields that say to which request a line belongs, and how it went.
struct RequestLine {
  std::uint64_t setting_index = 0;
  std::uint64_t variant_index = 0;
  std::uint64_t prompt = 0;
  std::uint64_t repetition = 0;
  std::string error;
  bool same_text = true;
  double agreement = 1;
  double wire_up = 0;
  double wire_down = 0;
  std::optional<LinkCounts> link;
  std::optional<AnswerEnergy> energy;
  std::optional<AnswerRecord> answer;

  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("setting_index", self.setting_index);
    field("variant_index", self.variant_index);
    field("prompt", self.prompt);
    field("repetition", self.repetition);
    field("error", self.error);
    field("same_text", self.same_text);
    field("agreement", self.agreement);
    field("wire_up", self.wire_up);
    field("wire_down", self.wire_down);
    field("link", self.link);
    field("energy", self.energy);
    field("answer", self.answer);
  }
};

// The first key of the objects that differs; empty: none.
std::string difference(const Json& one, const Json& other) {
  for (const auto& [key, value] : one.items()) {
    if (!other.contains(key) || other[key] != value) return key;
  }
  for (const auto& [key, value] : other.items()) {
    if (!one.contains(key)) return key;
  }
  return "";
}

constexpr OutputKind kJournalFile{
    .name = "a journal of outrider-bench",
    .is_earlier =
        [](std::string_view content) {
          return content.starts_with("{") &&
                 content.find("\"schema\":\"outrider-bench-requests/") != std::string_view::npos;
        },
    .is_stream = false,
    .is_state = true,
    .is_appended = true};

Status cannot_write(const std::string& path) {
  return resource_exhausted(path + " cannot be written: " + errno_message(errno) +
                            ". It holds what was measured before; run the same command again when "
                            "there is room, and it resumes");
}

}  // namespace

Json request_json(const GridPlan& plan, const FinishedAnswer& answer) {
  const AnswerJob& job = answer.job;
  const GridSetting& setting = plan.settings[job.setting];
  RequestLine line{.setting_index = job.setting,
                   .variant_index = job.variant,
                   .prompt = job.prompt,
                   .repetition = job.repetition,
                   .error = answer.error,
                   .same_text = answer.same_text,
                   .agreement = answer.agreement,
                   .wire_up = answer.answer.figures.wire_up,
                   .wire_down = answer.answer.figures.wire_down,
                   .link = answer.answer.link,
                   .energy = answer.answer.energy,
                   .answer = {}};
  if (!answer.failed()) line.answer = answer.answer.record;
  Json json = write_json(line);
  // Kept outside of the record, because few requests have it.
  if (const auto trace = parse_json(answer.answer.trace, "a trace"); trace.ok()) {
    json["trace"] = *trace;
  }
  json["setting"] = setting.name;
  json["network"] = setting.network;
  json["pace"] = setting.pace;
  json["variant"] = plan.variants[job.variant].name;
  json["strategy"] = name_of(plan.variants[job.variant].strategy);
  json["temperature"] = setting.sampling.temperature;
  json["link_offset_ms"] = to_ms(link_offset(plan, job));
  return json;
}

Result<FinishedAnswer> read_request(const Json& json, const std::string& where) {
  OUTRIDER_ASSIGN_OR_RETURN(RequestLine line, read_json<RequestLine>(json, where));
  FinishedAnswer answer;
  answer.job = {line.setting_index, line.variant_index, line.prompt, line.repetition};
  answer.error = line.error;
  answer.same_text = line.same_text;
  answer.agreement = line.agreement;
  if (!line.answer) {
    if (line.error.empty()) return data_loss(where + ": neither an answer nor an error");
    return answer;
  }
  OUTRIDER_ASSIGN_OR_RETURN(answer.answer, edge_answer_of(*std::move(line.answer)));
  answer.answer.figures.wire_up = line.wire_up;
  answer.answer.figures.wire_down = line.wire_down;
  if (json.contains("trace")) answer.answer.trace = json["trace"].dump();
  answer.answer.link = line.link;
  if (line.energy) add_energy(*line.energy, answer.answer);
  return answer;
}

Result<std::unique_ptr<Journal>> Journal::open(const std::string& path, const GridPlan& plan,
                                               Json what) {
  what["schema"] = kRequestsSchema;
  OUTRIDER_RETURN_IF_ERROR(OutputFile::check(path, kJournalFile));
  std::unique_ptr<Journal> journal(new Journal(path, plan));
  const Result<std::string> text = read_file(path, kMaxBytes);
  if (text.ok()) {
    OUTRIDER_RETURN_IF_ERROR(journal->read(*text, what));
  } else if (text.status().code() != StatusCode::kNotFound) {
    return text.status();
  }
  journal->file_ = UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  if (!journal->file_.valid()) return cannot_write(path);
  if (ftruncate(journal->file_.get(), journal->end_) != 0 ||
      lseek(journal->file_.get(), journal->end_, SEEK_SET) < 0) {
    return cannot_write(path);
  }
  if (journal->end_ == 0) OUTRIDER_RETURN_IF_ERROR(journal->write_line(what));
  return journal;
}

Status Journal::remove(const std::string& path) {
  OUTRIDER_RETURN_IF_ERROR(OutputFile::check(path, kJournalFile));
  std::error_code error;
  std::filesystem::remove(path, error);
  return error ? cannot_write(path) : Status();
}

Json Journal::header_of(const std::string& path) {
  const Result<std::string> text = read_file(path, kMaxBytes);
  if (!text.ok()) return nullptr;
  const Result<Json> header = parse_json(text->substr(0, text->find('\n')), path);
  return header.ok() ? *header : Json();
}

Status Journal::read(const std::string& text, const Json& header) {
  std::size_t begin = 0;
  for (std::size_t number = 1; begin < text.size(); ++number) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;  // cut off
    const std::string where = path_ + ":" + std::to_string(number);
    OUTRIDER_ASSIGN_OR_RETURN(const Json line,
                              parse_json({text.data() + begin, end - begin}, where));
    if (number == 1) {
      const std::string key = difference(header, line);
      if (!key.empty()) {
        return invalid_argument(path_ + " is of another run: \"" + key +
                                "\" differs. Remedy: another --out, or --fresh to start again");
      }
    } else {
      OUTRIDER_ASSIGN_OR_RETURN(FinishedAnswer answer, read_request(line, where));
      known_.insert_or_assign(answer.job, std::move(answer));
    }
    begin = end + 1;
    end_ = static_cast<std::int64_t>(begin);
  }
  return {};
}

Status Journal::write_line(const Json& line) {
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t put = write(file_.get(), text.data() + written, text.size() - written);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      const Status status = cannot_write(path_);
      [[maybe_unused]] const int cut = ftruncate(file_.get(), end_);
      return status;
    }
    written += static_cast<std::size_t>(put);
  }
  end_ += static_cast<std::int64_t>(text.size());
  return {};
}

Status Journal::add(const FinishedAnswer& answer) {
  return write_line(request_json(plan_, answer));
}

}  // namespace outrider
