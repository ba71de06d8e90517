// SPDX-License-Identifier: Apache-2.0
#include "emulation/link/link.h"

#include <cstdio>

#include "emulation/link/proxy_link.h"
#include "emulation/link/tun_link.h"

namespace outrider {

Result<std::unique_ptr<Link>> start_link(const LinkProfile& profile, const LinkOptions& options) {
  if (options.kind != LinkKind::kModelled) {
    Result<std::unique_ptr<TunLink>> emulated = TunLink::start(profile, options.seed);
    if (emulated.ok()) {
      if (!(*emulated)->forwarder().is_real_time()) {
        std::fprintf(stderr, "link: real-time scheduling is not permitted; packets may be late\n");
      }
      return std::unique_ptr<Link>(*std::move(emulated));
    }
    if (options.kind == LinkKind::kEmulated) return emulated.status();
    std::fprintf(stderr, "link: modelled, not emulated: %s\n", emulated.status().message().c_str());
  }
  return std::unique_ptr<Link>(new ProxyLink(profile, options.seed));
}

}  // namespace outrider
