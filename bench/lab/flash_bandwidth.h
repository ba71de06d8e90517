// How fast an emulated flash reads. Thread rule: a pure function.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "common/base/status.h"

namespace outrider {

// "400MB/s", "1.5GB/s", or a kind of flash at its specification's sequential read rate: "ufs3.1",
// "ufs4.0", "ufs4.1", "nvme" (PCIe 3.0 x4). Returns bytes per second; INVALID_ARGUMENT lists the
// known kinds.
Result<double> parse_bandwidth(std::string_view text);

}  // namespace outrider
