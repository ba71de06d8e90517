// SPDX-License-Identifier: Apache-2.0
#include "edge_client/session/foretelling_session.h"

#include <utility>

namespace outrider {

SessionActions ForetellingSession::foretell(SessionActions actions) {
  if (session_.finished()) return actions;
  std::optional<Provisional> shown =
      session_.decided() ? text_.end() : text_.update(session_.opened().stop_ids);
  if (shown) actions.push_back(*std::move(shown));
  return actions;
}

}  // namespace outrider
