// The list of checks. Their files stand in the folders beside this one, by what they hold
// Outrider to: exactness, speed, cost, trees, the FSD paper, settings that a seed draws. main.cc
// calls what the build includes. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/check.h"

namespace outrider {

// The law of choice: draws against the filtered softmax, Philox against its published vectors.
void add_choice_check(CheckList& checks);

// Strategies against each other at the paper's paces: real processes, an emulated link.
void add_run_check(CheckList& checks);

// A device's pass times by rows, as a file that `run --pace-from` emulates.
void add_measure_device_check(CheckList& checks);

// One question to plain cloud decoding and to Outrider at the same time, to look at.
void add_race_check(CheckList& checks);

// What a million tokens cost, from a price file and a report or plain figures.
void add_price_check(CheckList& checks);

// Where each strategy wins by the latency law, and equation 9 of the FSD paper as contours.
void add_model_check(CheckList& checks);

// The FSD paper's tables and figures beside its own formulas and our demo pair.
void add_reproduce_check(CheckList& checks);

// Two reports of `run` against each other, prompt by prompt.
void add_compare_check(CheckList& checks);

// Strategies held against the paper's latency law.
void add_law_check(CheckList& checks);

// The paper's ablations: queues, workers, draft length.
void add_ablate_check(CheckList& checks);

// Every strategy, queue and number of workers gives plain decoding's text.
void add_exact_check(CheckList& checks);

// `bytes` and `cost`: what mirrored sends spend on the uplink and on the target.
void add_economy_checks(CheckList& checks);

// Virtual time against real time on settings that a seed draws.
void add_clocks_check(CheckList& checks);

// What `outrider-edge doctor` foretells against what is measured, on settings that a seed draws.
void add_doctor_check(CheckList& checks);

// The controller while the draft, the device or the link change, against the best fixed setting.
void add_controller_check(CheckList& checks);

// What a hit costs: from a verdict to the start of a pass whose nodes are there already.
void add_sync_check(CheckList& checks);

// Two processes without model work: from a verdict leaving to the next pass starting.
void add_loopback_check(CheckList& checks);

// Speculative decoding over gRPC against plain decoding, token by token.
void add_lossless_check(CheckList& checks);

// From starting the edge program to its first token.
void add_startup_check(CheckList& checks);

// Tokens per target pass with a draft's chains, answers cut where they begin to loop.
void add_acceptance_check(CheckList& checks);

// How often committed exits name a pass's whole outcome, and how well they know it.
void add_exits_accuracy_check(CheckList& checks);

// Perplexity of answers in one dtype against that in another.
void add_perplexity_check(CheckList& checks);

// Virtual time against real time: speeds agree, and a simulated answer takes seconds.
void add_tree_check(CheckList& checks);

// Trees against chains over a network, in virtual time.
void add_tree_link_check(CheckList& checks);
void add_planner_check(CheckList& checks);
void add_virtual_check(CheckList& checks);

// The wire's budget: bytes of a Grow of 32 nodes and of an exit report.
void add_wire_check(CheckList& checks);

// A row's logits have the same bits however it is computed, on every CPU.
void add_rows_check(CheckList& checks);

// Decoding speed against the memory's read bandwidth.
void add_decode_check(CheckList& checks);

// What the output matrix takes of a pass, and what it would take row by row as a verdict walks.
void add_head_check(CheckList& checks);

// A pack streamed from flash against reading and computing alone.
void add_stream_check(CheckList& checks);

// Pass time with early exits against without.
void add_exits_check(CheckList& checks);

// Emulated links keep their profiles' round trips, rates and traces.
void add_link_check(CheckList& checks);

// Logits of given tokens as a .npy file.
void add_logits_check(CheckList& checks);

}  // namespace outrider
