// The part of an exchange that the library underneath sees: kept out of exchange.h.
//
// Thread rule: mu guards it all. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <microhttpd.h>

#include <optional>
#include <string>

#include "common/base/mutex.h"
#include "common/http/exchange.h"

namespace outrider {

struct HttpExchange::Parts {
  enum class State : std::uint8_t { kWaiting, kWhole, kStream };

  // Called with mu held: the server's thread looks at the connection again.
  void resume() OUTRIDER_REQUIRES(mu) {
    if (!suspended) return;
    suspended = false;
    MHD_resume_connection(connection);
  }
  // The client has ended its side, or both.
  void probe(int fd) OUTRIDER_REQUIRES(mu);
  void suspend() OUTRIDER_REQUIRES(mu) {
    suspended = true;
    MHD_suspend_connection(connection);
  }

  Mutex mu;
  MHD_Connection* connection OUTRIDER_GUARDED_BY(mu) = nullptr;  // null once it is over
  State state OUTRIDER_GUARDED_BY(mu) = State::kWaiting;
  HttpResponse response OUTRIDER_GUARDED_BY(mu);
  std::string unsent OUTRIDER_GUARDED_BY(mu);  // of a stream
  std::string filler OUTRIDER_GUARDED_BY(mu);
  bool probed OUTRIDER_GUARDED_BY(mu) = false;  // the client's side was ended, and it was sent one
  bool reads_interim = true;                    // it speaks HTTP/1.1
  bool ended OUTRIDER_GUARDED_BY(mu) = false;
  bool queued OUTRIDER_GUARDED_BY(mu) = false;  // the library has the response
  bool suspended OUTRIDER_GUARDED_BY(mu) = false;
};

}  // namespace outrider
