// The list of checks. The folders beside this file group them by subject: exactness, speed, cost,
// the FSD paper, settings that a seed draws. main.cc calls those that the build includes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/check.h"

namespace outrider {

void add_acceptance_check(CheckList& checks);  // tokens per target pass with a draft's chains
void add_capacity_check(CheckList& checks);    // sessions that one server carries
void add_market_check(CheckList& checks);      // rows of passes that sessions share
void add_choice_check(CheckList& checks);      // draws against the softmax, Philox, full evaluation
void add_clocks_check(CheckList& checks);      // virtual time against real time
void add_compare_check(CheckList& checks);     // two reports of `run`, prompt by prompt
void add_constraints_check(CheckList& checks);  // compiling forms of answers, masking rows
void add_decode_check(CheckList& checks);       // decoding against the memory's read bandwidth
void add_doctor_check(CheckList& checks);       // the forecasts of `outrider-edge doctor`
void add_elastic_check(CheckList& checks);      // levels: switches, predictions, memory, flash
void add_exact_check(CheckList& checks);        // every way to decode gives plain decoding's text
void add_exits_check(CheckList& checks);        // pass time with early exits against without
void add_exits_accuracy_check(CheckList& checks);  // how often committed exits name an outcome
void add_law_check(CheckList& checks);             // strategies against the paper's latency law
void add_link_check(CheckList& checks);            // emulated links against their profiles
void add_load_check(CheckList& checks);            // real clients on a real server
void add_logits_check(CheckList& checks);          // logits of given tokens as a .npy file
void add_loopback_check(CheckList& checks);    // from a verdict leaving to the next pass starting
void add_lossless_check(CheckList& checks);    // speculation over gRPC, token by token
void add_perplexity_check(CheckList& checks);  // of answers in one dtype against another
void add_price_check(CheckList& checks);       // what a million tokens cost
void add_reproduce_check(CheckList& checks);   // the papers' tables beside our own runs
void add_rows_check(CheckList& checks);        // a row's bits are the same however it is computed
void add_run_check(CheckList& checks);         // strategies over networks and devices
void add_startup_check(CheckList& checks);     // from starting the edge to its first token
void add_stream_check(CheckList& checks);      // a pack from flash against reading and computing
void add_sync_check(CheckList& checks);        // on a hit, from the verdict to the next pass
void add_wire_check(CheckList& checks);        // bytes of messages

}  // namespace outrider
