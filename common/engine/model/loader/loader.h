// Loads a running model from a directory. Only here --device and --dtype are interpreted.
//
// Thread rule: free functions; loading may take seconds. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/engine/model/format/model_files.h"
#include "common/engine/model/model.h"

namespace outrider {

// host-cuda: the kernels of cuda by fibers on the CPU, slow, for tests. torch-cuda: libtorch's.
inline const std::vector<std::string> kDevices = {"cpu", "cuda", "torch-cuda", "host-cuda"};

struct LoadOptions {
  std::string directory = {};
  std::string dtype = "auto";    // "auto" (as stored), "f32", "bf16", "int8", "int4"
  std::string kv_dtype = "f32";  // keys and values: "f32", "bf16" (not libtorch)
  std::string device = "cpu";    // one of kDevices
  // For device cuda: the numbers of its GPUs, which compute together; empty means the first.
  std::vector<int> gpus = {};
  // The positions for which a device's memory has room, at most two contexts and nine tenths of the
  // free memory; 0 means that much.
  Position kv_positions = 0;
  int threads = 0;              // of the cpu backend; 0: one per CPU
  std::string kernel = "auto";  // also: "auto" (the fastest), or another of vector_targets.h
  bool check_finite = false;    // read all weights and refuse NaN and infinity
  // Reduces info().max_positions to this, from 1 to the model's own.
  std::optional<Position> max_context = {};
  bool ignore_eos = false;  // the model has no end-of-text tokens: answers end only by length
  // Where converted weights are kept for the next start: a folder, "none", or "auto" for the user's
  // own (XDG_CACHE_HOME). Messages about it go to stderr.
  std::string cache_dir = "none";
  // A level table (elastic_table.h): the units' order is the table's, and the model has its levels.
  // Only the cpu backend has them. Empty: as stored.
  std::string elastic = {};
  // Called now and then while weights are converted, with bytes done and in all.
  std::function<void(std::int64_t, std::int64_t)> progress = {};
};

// The same for another device; the CPU has no GPUs.
LoadOptions for_device(LoadOptions options, const std::string& device);

// Makes the model of a device other than the CPU. Programs that have a backend for one of them pass
// what makes its model, as make_torch_model (torch/torch_model.h); others pass an empty one.
using CudaFactory = std::function<Result<std::unique_ptr<Model>>(std::shared_ptr<const ModelFiles>,
                                                                 const LoadOptions&)>;

// Errors: those of load_model_files() and the backend; kInvalidArgument for an unknown device, and
// for gpus that are named twice or for the CPU;
// kFailedPrecondition for a device in a build without it. Never uses another device instead.
Result<std::unique_ptr<Model>> load_model(const LoadOptions& options,
                                          const CudaFactory& make_cuda = {});

}  // namespace outrider
