// Models on the devices besides the CPU: --device cuda and host-cuda, for load_model().
//
// Thread rule: free functions; loading may take seconds. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/engine/model/cpu/streaming_device.h"
#include "common/engine/model/loader/loader.h"

namespace CLI {
class App;
}

namespace outrider {

// --device and --gpus, in these groups of the help.
void add_device_flags(CLI::App& app, LoadOptions& options, const char* group, const char* rare);

// A CudaFactory. Errors: those of cuda::make_cuda_model() and of the device; FAILED_PRECONDITION
// if this program was built without it.
Result<std::unique_ptr<Model>> make_device_model(const std::shared_ptr<const ModelFiles>& files,
                                                 const LoadOptions& options);

// The same device for a model whose layers are read during each pass. Of the options kv_dtype,
// device, gpus and threads count.
StreamingDevice streaming_device(const LoadOptions& options);

}  // namespace outrider
