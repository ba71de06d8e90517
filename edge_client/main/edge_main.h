// An edge as a whole program: outrider-edge, or another one with parts of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace outrider {

struct EdgeParts;  // options.h

// Returns the exit code. parts: outlive it.
int edge_main(int argc, char** argv, const EdgeParts& parts);
// outrider-edge itself.
int edge_main(int argc, char** argv);

}  // namespace outrider
