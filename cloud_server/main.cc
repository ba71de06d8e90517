// outrider-server: the cloud side. It holds the target model and verifies drafts.
// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/server_main.h"

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape)
  return outrider::server_main(argc, argv);
}
