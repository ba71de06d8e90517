// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/torch/torch_model.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/Device.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/ScalarType.h>

#include <exception>
#include <new>
#include <utility>

#include "common/engine/model/format/architecture.h"
#include "common/engine/model/format/fingerprint.h"
#include "common/engine/model/torch/torch_pass.h"

#ifdef OUTRIDER_TORCH_CUDA
#include <dlfcn.h>

#include "common/engine/model/torch/cuda_attention.h"
#endif

namespace outrider {
namespace {

// Raise it when the bits of our own part of the arithmetic change; libtorch's part is its version.
constexpr const char* kKernelVersion = "torch 2.11.0, outrider 1";

// The device and type in which the model computes.
struct TorchDevice {
  c10::Device device{c10::kCPU};
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::string name;  // the device class of arithmetic ids: "torch-cpu", or what decides on a GPU
};

#ifdef OUTRIDER_TORCH_CUDA
// Loading registers its kernels with libtorch; it stays loaded.
Status load_cuda_library() {
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) != nullptr) return {};
  const char* reason = dlerror();
  return failed_precondition(
      std::string("device torch-cuda: libtorch's CUDA library does not load (") +
      (reason == nullptr ? "no reason given" : reason) +
      "); install the torch wheel with all its dependencies, or use --device cpu");
}

// "13.1.0". It comes with libtorch's CUDA library.
Result<std::string> cublas_version() {
  using GetProperty = int (*)(int property, int* value);
  const auto get = reinterpret_cast<GetProperty>(dlsym(RTLD_DEFAULT, "cublasGetProperty"));
  if (get == nullptr) return failed_precondition("device torch-cuda: there is no cuBLAS");
  std::string version;
  for (int property = 0; property < 3; ++property) {  // major, minor, patch
    int value = 0;
    get(property, &value);
    version += (property == 0 ? "" : ".") + std::to_string(value);
  }
  return version;
}

// cuBLAS chooses its sums by the card, the number of its multiprocessors and its own version.
Result<TorchDevice> find_cuda(c10::ScalarType dtype) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string card, find_cuda_device());
  OUTRIDER_RETURN_IF_ERROR(load_cuda_library());
  OUTRIDER_ASSIGN_OR_RETURN(const std::string version, cublas_version());
  at::globalContext().setAllowBF16ReductionCuBLAS(false, /*allow_splitk=*/false);
  return TorchDevice{c10::Device(c10::kCUDA, 0), dtype, "torch-" + card + "-cublas" + version};
}
#else
Result<TorchDevice> find_cuda(c10::ScalarType /*dtype*/) {
  return failed_precondition(
      "device torch-cuda: this program was built without it. Remedy: ./run build torch-cuda");
}
#endif

// device: "cpu" or "torch-cuda"; dtype: "auto", "f32", "bf16". For cuda this loads libtorch's CUDA
// library, which programs do not link, so that they start without it.
Result<TorchDevice> find_torch_device(const std::string& device, const std::string& dtype,
                                      bool stored_f32) {
  const bool cuda = device == "torch-cuda";
  if (!cuda && device != "cpu") {
    return invalid_argument("device \"" + device.substr(0, 60) +
                            "\": libtorch computes on cpu or torch-cuda");
  }
  if (dtype != "auto" && dtype != "f32" && !(cuda && dtype == "bf16")) {
    return invalid_argument("dtype \"" + dtype.substr(0, 60) + "\": libtorch computes in " +
                            (cuda ? "f32 or bf16 on a GPU" : "f32 on the cpu"));
  }
  if (!cuda) return TorchDevice{c10::Device(c10::kCPU), c10::ScalarType::Float, "torch-cpu"};
  const bool f32 = dtype == "f32" || (dtype == "auto" && stored_f32);
  return find_cuda(f32 ? c10::ScalarType::Float : c10::ScalarType::BFloat16);
}

ModelInfo describe(const ModelFiles& files, const TorchDevice& device) {
  const ModelConfig& config = files.config;
  ModelInfo info;
  info.name = files.name;
  info.architecture = config.architecture;
  info.fingerprint = files.fingerprint;
  info.dtype = device.dtype == at::kFloat ? "f32" : "bf16";
  info.vocab_size = config.vocab_size;
  info.hidden_size = config.hidden_size;
  info.num_layers = config.num_layers;
  info.max_positions = config.max_positions;
  info.num_parameters = num_parameters(config);
  const std::int64_t embedding = std::int64_t{config.vocab_size} * config.hidden_size;
  const std::int64_t each = device.dtype == at::kFloat ? 4 : 2;
  info.weight_bytes = (info.num_parameters - (config.tied_embeddings ? 0 : embedding)) * each;
  info.kv_bytes_per_position =
      std::int64_t{8} * config.num_layers * config.num_kv_heads * config.head_dim;
  info.stop_ids = config.stop_ids;
  info.arithmetic_id = arithmetic_id({.fingerprint = files.fingerprint,
                                      .dtype = info.dtype,
                                      .kernel_version = kKernelVersion,
                                      .device_class = device.name});
  return info;
}

// Converts libtorch's exceptions to a Status.
Status status_of(const std::exception& error) {
  const std::string_view what = error.what();
  const std::string first_line(what.substr(0, what.find('\n')));
  const bool memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
                      what.find("out of memory") != std::string_view::npos ||
                      what.find("not enough memory") != std::string_view::npos;
  return memory ? resource_exhausted("libtorch: " + first_line + "; use a smaller context or model")
                : internal_error("libtorch: " + first_line);
}

std::unique_ptr<HostCopies> copies_from([[maybe_unused]] at::Device device) {
#ifdef OUTRIDER_TORCH_CUDA
  if (device.is_cuda()) return make_cuda_copies();
#endif
  return nullptr;
}

class TorchModel final : public Model {
 public:
  TorchModel(std::shared_ptr<const ModelFiles> files, const TorchDevice& device)
      : files_(std::move(files)),
        info_(describe(*files_, device)),
        device_(device.device),
        pass_(files_->config, load_torch_weights(*files_, device.dtype, device_), device_,
              copies_from(device_)) {}

  const ModelInfo& info() const override { return info_; }

  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override {
    const c10::InferenceMode guard;
    try {
      const ModelConfig& config = files_->config;
      const auto options = at::TensorOptions().dtype(at::kFloat).device(device_);
      auto pages = std::make_shared<TorchKvPages>(this, count);
      for (std::int32_t layer = 0; layer < config.num_layers; ++layer) {
        pages->keys.push_back(at::empty(
            {std::int64_t{count} * KvPages::kRows, config.num_kv_heads, config.head_dim}, options));
        pages->values.push_back(at::empty_like(pages->keys.back()));
      }
      return std::shared_ptr<KvPages>(std::move(pages));
    } catch (const std::exception& error) {
      return status_of(error);
    }
  }

  Status forward(std::span<const Row> rows, PassOutput& out) override {
    OUTRIDER_RETURN_IF_ERROR(check_rows(rows, info_, this));
    OUTRIDER_RETURN_IF_ERROR(check_unchanged());
    const c10::InferenceMode guard;
    out.vocab_size = info_.vocab_size;
    out.logits.clear();
    try {
      std::size_t count = first_part(rows.size(), pass_.tile_rows());
      for (std::size_t begin = 0; begin < rows.size(); begin += count) {
        if (begin > 0) count = pass_.tile_rows();
        run_tile(rows.subspan(begin, count), out);
      }
    } catch (const std::exception& error) {
      return status_of(error);
    }
    return {};
  }
  Status check_unchanged() const override { return files_->weights.check_unchanged(); }

 private:
  void run_tile(std::span<const Row> rows, PassOutput& out) {
    const std::size_t done = out.logits.size() / static_cast<std::size_t>(info_.vocab_size);
    const at::Tensor logits = pass_.run(rows, {out.tap, done});
    const float* values = logits.const_data_ptr<float>();
    out.logits.insert(out.logits.end(), values, values + logits.numel());
  }

  const std::shared_ptr<const ModelFiles> files_;
  const ModelInfo info_;
  const at::Device device_;
  TorchPass pass_;
};

}  // namespace

Result<std::unique_ptr<Model>> make_torch_model(std::shared_ptr<const ModelFiles> files,
                                                const LoadOptions& options) {
  OUTRIDER_RETURN_IF_ERROR(check_llama_blocks(files->config, "libtorch"));
  if (options.device != "cpu" && options.kv_dtype != "f32") {
    return invalid_argument("kv dtype " + options.kv_dtype.substr(0, 60) +
                            ": libtorch keeps keys and values in its own type; leave it out");
  }
  const bool stored_f32 =
      files->weights.at(weight_name(ModelPart::kEmbedding)).dtype == DType::kF32;
  OUTRIDER_ASSIGN_OR_RETURN(const TorchDevice device,
                            find_torch_device(options.device, options.dtype, stored_f32));
  const c10::InferenceMode guard;
  try {
    if (options.threads > 0) at::set_num_threads(options.threads);
    return std::unique_ptr<Model>(std::make_unique<TorchModel>(std::move(files), device));
  } catch (const std::exception& error) {
    return status_of(error);
  }
}

}  // namespace outrider
