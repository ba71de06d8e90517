// The list of checks. One line per file beside this one; main.cc calls what the build includes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/check.h"

namespace outrider {

// The law of choice: draws against the filtered softmax, Philox against its published vectors.
void add_choice_check(CheckList& checks);

// The wire's budget: bytes of a Grow of 32 nodes and of an exit report.
void add_wire_check(CheckList& checks);

}  // namespace outrider
