// SPDX-License-Identifier: Apache-2.0
#include "proto/grpc_log.h"

#include <grpc/support/log.h>

#include "common/telemetry/log.h"

namespace outrider {
namespace {

void pass_on(gpr_log_func_args* line) {
  log(LogLevel::kDebug, line->message,
      {{"from", "grpc"},
       {"severity", line->severity == GPR_LOG_SEVERITY_ERROR ? "error" : "info"}});
}

}  // namespace

void take_over_grpc_log() {
  gpr_set_log_function(pass_on);
}

}  // namespace outrider
