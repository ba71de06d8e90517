// The subcommands of outrider-edge. Each returns the exit code, or the Status that ended it.
//
// Thread rule: main thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/base/status.h"
#include "edge_client/main/options.h"
#include "edge_client/shell/interrupts.h"

namespace outrider {

Result<int> run_command(const AnswerOptions& options, const PromptOptions& prompt,
                        Interrupts& interrupts);
Result<int> chat_command(const AnswerOptions& options, const ChatOptions& chat,
                         Interrupts& interrupts);
// Blocks until the first signal.
Result<int> serve_command(const AnswerOptions& options, const ServingOptions& serve,
                          Interrupts& interrupts);
// Tries ways of drafting against plain decoding, and says which to use.
Result<int> doctor_command(const AnswerOptions& options, const DoctorOptions& doctor_options,
                           Interrupts& interrupts);
Result<int> tokenize_command(const TokenizeOptions& options);
Result<int> detokenize_command(const TokenizeOptions& options);
Result<int> pack_command(const PackOptions& options);
// Reads records again on a target. The exit code is 1 if anything is wrong with one of them.
Result<int> audit_command(const AuditOptions& options);

}  // namespace outrider
