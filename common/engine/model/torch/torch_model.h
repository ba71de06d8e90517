// The libtorch backend: the reference in the cpu backend's tests, and a server's --device
// torch-cuda. Its text is its own: cuBLAS chooses sums by card and version, and the arithmetic id
// names both.
//
// On the cpu it computes in f32. On a GPU it computes in f32 or bf16, with residuals, norms,
// softmax and KV in f32, and our own attention kernel. Rows are computed in padded tiles of a fixed
// number, so that each operation has one shape only and a row's bits do not depend on its
// neighbours; on a GPU that is by design and not yet measured.
//
// This header needs no libtorch; programs get it by linking outrider_model_torch. Thread rule: as
// model.h; all models of a process share libtorch's threads. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "common/base/status.h"
#include "common/engine/model/format/model_files.h"
#include "common/engine/model/loader/loader.h"
#include "common/engine/model/model.h"

namespace outrider {

// Reads dtype ("auto", "f32", on a GPU also "bf16"), device and threads of `options`; a
// CudaFactory. Errors: kInvalidArgument for a dtype that the device does not support;
// kFailedPrecondition for torch-cuda if the build, a library or a device is missing, naming it;
// kResourceExhausted if the weights do not fit the device.
Result<std::unique_ptr<Model>> make_torch_model(std::shared_ptr<const ModelFiles> files,
                                                const LoadOptions& options);

}  // namespace outrider
