// SPDX-License-Identifier: Apache-2.0
#include "edge_client/failover/target_rules.h"

namespace outrider {

bool may_pass(const Status& ended) {
  const StatusCode code = ended.code();
  return ended.ok() || code == StatusCode::kUnavailable || code == StatusCode::kDeadlineExceeded ||
         code == StatusCode::kResourceExhausted;
}

std::string difference(const FailoverOptions& options, const Opened& server) {
  if (options.other_model) return {};
  if (server.fingerprint != options.fingerprint) {
    return "the server's target is another model (fingerprint " + server.fingerprint +
           ") than --target (" + options.fingerprint +
           "); a model that may differ is named with --offline-target";
  }
  if (!options.strict_target || server.arithmetic_id == options.arithmetic_id) return {};
  return "the server computes with arithmetic id " + server.arithmetic_id + ", this device with " +
         options.arithmetic_id + ", and --strict-target wants the same bits";
}

}  // namespace outrider
