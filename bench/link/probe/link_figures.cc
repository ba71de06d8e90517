// SPDX-License-Identifier: Apache-2.0
#include "bench/link/probe/link_figures.h"

#include <cstdio>
#include <memory>

#include "bench/link/probe/sample_quantile.h"

namespace outrider {

Json link_figures(const LinkProfile& profile, const LinkOptions& options,
                  const TcpProbePlan& plan) {
  Json figures = {{"asked", profile.description()}};
  const Result<std::unique_ptr<Link>> link = start_link(profile, options);
  const Result<TcpMeasurement> measured =
      link.ok() ? probe_tcp(**link, plan) : Result<TcpMeasurement>(link.status());
  if (!measured.ok()) {
    figures["error"] = measured.status().to_string();
    return figures;
  }
  const double rtt_ms = sample_quantile(measured->round_trips_ms, 0.5).value;
  figures["link"] = (*link)->kind();
  figures["rtt_p50_ms"] = rtt_ms;
  figures["up_mbit_s"] = measured->up_mbit_s;
  figures["down_mbit_s"] = measured->down_mbit_s;
  std::fprintf(stderr, "%s, %s, over TCP: RTT %.2f ms, up %.3g Mbit/s, down %.3g Mbit/s\n",
               profile.name.c_str(), (*link)->kind(), rtt_ms, measured->up_mbit_s,
               measured->down_mbit_s);
  return figures;
}

}  // namespace outrider
