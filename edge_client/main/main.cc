// outrider-edge: drafts on this device, lets a target model elsewhere decide.
// SPDX-License-Identifier: Apache-2.0
#include "edge_client/main/edge_main.h"

int main(int argc, char** argv) {
  return outrider::edge_main(argc, argv);
}
