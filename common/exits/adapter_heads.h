// Exit adapters at work, on the cpu kernels.
//
// The target's output matrix would be the most expensive part of an exit: here its rows are an int8
// copy, of the shortlist alone if the adapters have one. Exits are advice, so their bits need not
// be exact; they are still the same for any number of threads.
//
//   auto files = *load_model_files("models/demo-target", {});
//   auto heads = *make_adapter_heads(*load_adapters("models/demo-target"), *files);
//
// Thread rule: as exit_heads.h; compute() uses the threads that HiddenRows lends.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "common/base/status.h"
#include "common/exits/adapters.h"
#include "common/exits/exit_heads.h"
#include "common/model/format/model_files.h"

namespace outrider {

// What make_adapter_heads() takes of memory: the adapters, and their output matrices in int8.
std::uint64_t adapter_heads_bytes(const ExitAdapters& adapters);

// target: read here, not kept. The adapters have passed check_target(). UNIMPLEMENTED or
// FAILED_PRECONDITION where this CPU has no kernels.
Result<std::unique_ptr<ExitHeads>> make_adapter_heads(ExitAdapters adapters,
                                                      const ModelFiles& target);

}  // namespace outrider
