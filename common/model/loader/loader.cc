// SPDX-License-Identifier: Apache-2.0
#include "common/model/loader/loader.h"

#include <utility>

#include "common/model/cpu/cpu_model.h"

namespace outrider {

Result<std::unique_ptr<Model>> load_model(const LoadOptions& options,
                                          const CudaFactory& make_cuda) {
  if (options.device != "cpu" && options.device != "cuda") {
    return invalid_argument("device \"" + options.device.substr(0, 60) + "\": must be cpu or cuda");
  }
  if (options.device == "cuda" && !make_cuda) {
    return failed_precondition(
        "device cuda: this program was built without it; build the preset cuda, or use cpu");
  }
  OUTRIDER_ASSIGN_OR_RETURN(
      std::shared_ptr<const ModelFiles> files,
      load_model_files(options.directory, {.check_finite = options.check_finite,
                                           .max_context = options.max_context,
                                           .ignore_eos = options.ignore_eos}));
  if (options.device == "cuda") return make_cuda(std::move(files), options);
  return make_cpu_model(
      std::move(files),
      {.dtype = options.dtype, .threads = options.threads, .progress = options.progress});
}

}  // namespace outrider
