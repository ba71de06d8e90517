// The journal of a run: one line of JSON for each request, written as it finishes, so that a run
// that was interrupted goes on where it ended, and what it measured is there whatever happens.
//
//   {"schema":"outrider-bench-requests/2", .. what is measured ..}      the first line
//   {"setting":"lte, table9-5ms","strategy":"sd", .. "answer":{..}}     each request
//
// A line that was cut off by a crash or a full disk is left out when the journal is read, and
// overwritten when the run goes on.
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
  // what: the run, as JSON without its schema; plan: that run's, outlives this. A file that is
  // there is gone on with. INVALID_ARGUMENT if it is of another run, with the first key that
  // differs; RESOURCE_EXHAUSTED where it cannot be written.
  static Result<std::unique_ptr<Journal>> open(const std::string& path, const GridPlan& plan,
                                               Json what);

  // What the run of the journal at `path` is; null where there is none that can be read.
  static Json header_of(const std::string& path);

  // Requests of an earlier run.
  const std::map<AnswerJob, FinishedAnswer>& known() const { return known_; }

  // RESOURCE_EXHAUSTED if it cannot be written; then the file ends with the line before.
  Status add(const FinishedAnswer& answer);

 private:
  Journal(std::string path, const GridPlan& plan) : path_(std::move(path)), plan_(plan) {}

  Status read(const std::string& text, const Json& header);
  Status write_line(const Json& line);

  const std::string path_;
  const GridPlan& plan_;
  UniqueFd file_;
  std::int64_t end_ = 0;  // of the last whole line, in bytes
  std::map<AnswerJob, FinishedAnswer> known_;
};

// A request as the journal has it.
Json request_json(const GridPlan& plan, const FinishedAnswer& answer);
Result<FinishedAnswer> read_request(const Json& line, const std::string& where);

}  // namespace outrider
