// Computes exit adapters on the cpu kernels.
//
// The target's output matrix would be the most expensive part of an exit. Here it is an int8 copy,
// only of the shortlist's rows if the adapters have a shortlist. Exits are advice, so their bits
// need not be exact; they are still the same for any number of threads.
//
//   auto files = *load_model_files("models/demo-target", {});
//   auto heads = *make_adapter_heads(*load_adapters("models/demo-target"), *files);
//
// Thread rule: as exit_heads.h; compute() uses the thread pool in HiddenRows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "common/base/status.h"
#include "common/decoding/exits/adapters.h"
#include "common/decoding/exits/exit_heads.h"
#include "common/engine/model/format/model_files.h"

namespace outrider {

// Memory that make_adapter_heads() takes: the adapters, and their output matrices in int8.
std::uint64_t adapter_heads_bytes(const ExitAdapters& adapters);

// target: only read during the call. pruning: an exit of the same target that only prunes. The
// adapters have passed check_target(). UNIMPLEMENTED or FAILED_PRECONDITION where this CPU has no
// kernels.
Result<std::unique_ptr<ExitHeads>> make_adapter_heads(
    ExitAdapters adapters, const ModelFiles& target,
    std::optional<ExitAdapter> pruning = std::nullopt);

}  // namespace outrider
