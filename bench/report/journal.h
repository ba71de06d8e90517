// The journal of a run: one line of JSON per request, written when the request finishes. An
// interrupted run resumes from it, and its measurements are never lost.
//
//   {"schema":"outrider-bench-requests/2", .. what is measured ..}      the first line
//   {"setting":"lte, table9-5ms","strategy":"sd", .. "answer":{..}}     each request
//
// A line that a crash or a full disk cut off is ignored when the journal is read, and overwritten
// when the run resumes.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "bench/harness/grid.h"
#include "common/base/json.h"
#include "common/base/posix.h"
#include "common/base/status.h"

namespace outrider {

inline constexpr const char* kRequestsSchema = "outrider-bench-requests/2";

class Journal final {
 public:
  // what: the description of the run as JSON without its schema; plan: of the same run, must
  // outlive this object. An existing file is continued. INVALID_ARGUMENT, with the first key that
  // differs, if it is of another run; RESOURCE_EXHAUSTED if it cannot be written.
  static Result<std::unique_ptr<Journal>> open(const std::string& path, const GridPlan& plan,
                                               Json what);

  // Begins the journal anew, for --fresh. INVALID_ARGUMENT if the file is no journal.
  static Status remove(const std::string& path);

  // The description of the run in the journal at `path`; null if it cannot be read.
  static Json header_of(const std::string& path);

  // Requests of an earlier run.
  const std::map<AnswerJob, FinishedAnswer>& known() const { return known_; }

  // RESOURCE_EXHAUSTED if it cannot be written; then the file ends with the previous line.
  Status add(const FinishedAnswer& answer);

 private:
  Journal(std::string path, const GridPlan& plan) : path_(std::move(path)), plan_(plan) {}

  Status read(const std::string& text, const Json& header);
  Status write_line(const Json& line);

  const std::string path_;
  const GridPlan& plan_;
  UniqueFd file_;
  std::int64_t end_ = 0;  // of the last complete line, in bytes
  std::map<AnswerJob, FinishedAnswer> known_;
};

// A request as the journal stores it.
Json request_json(const GridPlan& plan, const FinishedAnswer& answer);
Result<FinishedAnswer> read_request(const Json& line, const std::string& where);

}  // namespace outrider
