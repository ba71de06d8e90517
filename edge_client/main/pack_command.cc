// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "common/cli/program.h"
#include "edge_client/flash/make_pack.h"
#include "edge_client/main/commands.h"

namespace outrider {

Result<int> pack_command(const PackOptions& options) {
  PackOptions packing = options;
  bool begun = false;
  packing.progress = [&begun](std::int64_t done, std::int64_t total) {
    begun = true;
    std::fprintf(stderr, "\rconverting weights: %3.0f %%",
                 100.0 * static_cast<double>(done) / static_cast<double>(total));
  };
  const Status packed = make_pack(packing);
  if (begun) std::fputc('\n', stderr);
  OUTRIDER_RETURN_IF_ERROR(packed);
  std::error_code error;
  const double size = static_cast<double>(std::filesystem::file_size(options.out, error));
  std::fprintf(stderr, "%s: %.1f MB\n", options.out.c_str(), size / 1e6);
  return kExitOk;
}

}  // namespace outrider
