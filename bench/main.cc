// outrider-bench: a command for every figure that Outrider claims (see bench/check.h).
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "bench/checks/checks.h"
#include "common/serving/cli/program.h"

int main(int argc, char** argv) {
  outrider::Program program("outrider-bench",
                            "Checks of Outrider's claims; each prints one JSON object last.");
  // The edges of a check learn from no other run, unless the check says so.
  setenv("OUTRIDER_STATE_DIR", "none", 0);
  outrider::CheckList checks(program.app());
  outrider::add_capacity_check(checks);
  outrider::add_market_check(checks);
  outrider::add_choice_check(checks);
  outrider::add_compare_check(checks);
  outrider::add_decode_check(checks);
  outrider::add_exits_check(checks);
  outrider::add_link_check(checks);
  outrider::add_price_check(checks);
  outrider::add_logits_check(checks);
  outrider::add_rows_check(checks);
#ifdef OUTRIDER_BENCH_TEXT
  outrider::add_constraints_check(checks);
#endif
#ifdef OUTRIDER_BENCH_FLASH
  outrider::add_stream_check(checks);
#endif
#ifdef OUTRIDER_BENCH_RPC
  outrider::add_wire_check(checks);
#endif
#ifdef OUTRIDER_BENCH_SERVER
  outrider::add_acceptance_check(checks);
  outrider::add_clocks_check(checks);
  outrider::add_doctor_check(checks);
  outrider::add_elastic_check(checks);
  outrider::add_exact_check(checks);
  outrider::add_exits_accuracy_check(checks);
  outrider::add_law_check(checks);
  outrider::add_load_check(checks);
  outrider::add_loopback_check(checks);
  outrider::add_lossless_check(checks);
  outrider::add_perplexity_check(checks);
  outrider::add_reproduce_check(checks);
  outrider::add_run_check(checks);
  outrider::add_startup_check(checks);
  outrider::add_sync_check(checks);
#endif

  program.app().require_subcommand(1);
  if (const std::optional<int> code = program.parse(argc, argv)) return *code;
  const outrider::Result<int> code = checks.run_chosen();
  return program.finish(code);
}
