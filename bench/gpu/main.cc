// outrider-gpu-check: on a machine with a GPU, whether the kernels of the cuda backend have the
// CPU's bits there, and how fast they are. Exit code 1 if a bit differs.
// SPDX-License-Identifier: Apache-2.0
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/gpu/cuda_device.h"
#include "bench/gpu/device_kernels.h"
#include "bench/gpu/model_check.h"
#include "bench/gpu/speed.h"
#include "common/base/output_file.h"
#include "common/base/vector_targets.h"
#include "common/engine/model/cuda/cases/kernel_cases.h"
#include "common/engine/model/cuda/device/cuda_device.h"
#include "common/engine/model/cuda/device/gpu_kernel.h"

namespace outrider::gpu {
namespace {

using nlohmann::json;

class Check {
 public:
  Check(CudaMemory& memory, std::uint64_t seed) : memory_(memory), seed_(seed) {}

  CaseContext context() { return {kernels_for(best_vector_target()), memory_, ++seed_}; }
  void add(const CaseResult& result) {
    ++cases_;
    outputs_ += result.outputs;
    different_ += result.different;
    not_numbers_ += result.not_numbers;
    if (result.different == 0 && result.not_numbers == 0) return;
    std::printf("DIFFERS: %s, seed %llu: %lld of %lld, %lld no numbers\n", result.name.c_str(),
                static_cast<unsigned long long>(seed_), static_cast<long long>(result.different),
                static_cast<long long>(result.outputs), static_cast<long long>(result.not_numbers));
    failed_.push_back({{"case", result.name},
                       {"seed", seed_},
                       {"different", result.different},
                       {"outputs", result.outputs}});
  }
  bool holds() const { return failed_.empty() && memory_.changed_gaps() == 0; }
  json report() const {
    return {{"cases", cases_},
            {"outputs", outputs_},
            {"different", different_},
            {"not_numbers", not_numbers_},
            {"writes_beyond_buffers", memory_.changed_gaps()},
            {"failed", failed_}};
  }

 private:
  CudaMemory& memory_;
  std::uint64_t seed_;
  std::int64_t cases_ = 0, outputs_ = 0, different_ = 0, not_numbers_ = 0;
  json failed_ = json::array();
};

void check_products(Check& check, bool is_quick) {
  for (const WeightKind& kind : weight_kinds()) {
    std::int64_t inputs = 512;
    for (const std::int64_t rows : {1, 2, 3, 5, 8, 9, 16, 17, 32, 33, 64, 80, 81, 200}) {
      inputs = inputs == 512 ? 576 : inputs == 576 ? 896 : inputs == 896 ? 1000 : 512;
      check.add(check_product(check.context(), kind, {rows, {72, 1000, 17}, inputs}));
    }
    for (const std::int64_t width : {1, 16, 31, 40, 300}) {
      check.add(check_product(check.context(), kind, {3, {1, 16}, width}));
    }
    if (kind.type == WeightType::kQuantized) {
      for (const int tiles : {1, 2, 4, 8, 16, 32}) {
        for (const int depth : {1, 2}) {
          check.add(check_product(check.context(), kind, {41, {500}, 1184}, {tiles, depth}));
        }
      }
    }
    if (is_quick) continue;
    for (const std::int64_t rows : {1, 8, 33}) {
      check.add(check_product(check.context(), kind, {rows, {4096}, 4096}));
    }
    check.add(check_product(check.context(), kind, {5, {1024}, 14336}));
  }
}

void check_others(Check& check) {
  for (const std::int64_t count : {1, 40, 576, 896, 1000, 4096, 11008}) {
    for (const std::int64_t rows : {3, 40}) {
      for (const CaseResult& result : check_rows(check.context(), rows, count)) check.add(result);
    }
  }
  for (const std::int64_t head_dim : {40, 64, 80, 128}) {
    for (const bool is_bf16 : {false, true}) {
      check.add(check_placement(check.context(), 50, {8, 4, head_dim}, is_bf16));
    }
  }
  const std::vector<AttentionShape> shapes = {
      {{4, 4, 64}, 1, 0, 0, true},        {{4, 2, 64}, 9, 200, 0, false},
      {{2, 2, 128}, 5, 1023, 0, true},    {{9, 3, 64}, 6, 70, 0, true},
      {{3, 1, 80}, 4, 2100, 0, false},    {{14, 2, 64}, 3, 130, 100, true},
      {{2, 1, 96}, 12, 1100, 300, true},  {{32, 8, 128}, 33, 3000, 0, true},
      {{32, 32, 128}, 17, 1500, 0, false}};
  for (const AttentionShape& shape : shapes) {
    for (int i = 0; i < 3; ++i) check.add(check_attention(check.context(), shape));
  }
}

void print_products(const json& products) {
  std::printf("\n%-5s %7s %6s |", "kind", "outputs", "inputs");
  for (const int rows : {1, 2, 4, 8, 16, 32, 64, 320, 512}) std::printf(" %8d", rows);
  std::printf(" | floor, microseconds by rows\n");
  std::string line;
  for (const json& product : products) {
    if (product["rows"] == 1) {
      std::printf("%-5s %7d %6d |", product["kind"].get<std::string>().c_str(),
                  product["outputs"].get<int>(), product["inputs"].get<int>());
    }
    std::printf(" %8.1f", product["us"].get<double>());
    if (product["rows"] == 512) std::printf(" | %.1f\n", product["floor_us"].get<double>());
  }
}

void print_all(const char* title, const json& rows) {
  std::printf("\n%s\n", title);
  for (const json& row : rows) std::printf("%s\n", row.dump().c_str());
}

constexpr OutputKind kReportFile{
    .name = "a report of outrider-gpu-check", .is_earlier = [](std::string_view content) {
      return content.find("\"multiprocessors\":") != std::string_view::npos;
    }};

struct Options {
  std::string json_file;
  bool is_quick = false;
  bool only_bits = false;
  bool only_speed = false;
  bool only_compiled = false;
  std::uint64_t seed = 1;
  ModelCheckOptions model = {.measures = true, .kv_bytes = std::int64_t{4} << 30};
};

// A whole model, whose bits and passes are looked at.
bool check_whole_model(const Options& options, json& rows) {
  const Result<ModelCheck> check =
      check_model(options.model, [] { return cuda::make_cuda_device(); });
  if (!check.ok()) throw std::runtime_error(check.status().to_string());
  rows = check->rows;
  return check->holds;
}

// Whether the program has machine code of all kernels that it launches.
int print_compiled() {
  const std::size_t kernels = cuda::launched_kernels().size();
  std::size_t missing = 0;
  for (const cuda::GpuCode& made : cuda::architectures()) {
    const std::vector<std::string> without = cuda::kernels_without_code(made.architecture);
    std::printf("sm_%d: %zu of %zu kernels, by CUDA %d.%d\n", made.architecture,
                kernels - without.size(), kernels, made.toolkit / 1000, made.toolkit % 1000 / 10);
    for (const std::string& name : without) std::printf("MISSING: %s\n", name.c_str());
    missing += without.size();
  }
  return missing == 0 && kernels > 0 ? 0 : 1;
}

int run(const Options& options) {
  const auto begin = std::chrono::steady_clock::now();
  const auto device = cuda::make_cuda_device();
  if (!device.ok()) throw std::runtime_error(device.status().message());
  const DeviceFacts facts = device_facts();
  std::printf("%s, %d multiprocessors, driver %d\n", facts.name.c_str(), facts.multiprocessors,
              facts.driver);
  json report = {{"device", facts.name},
                 {"multiprocessors", facts.multiprocessors},
                 {"memory_bytes", facts.memory_bytes},
                 {"l2_bytes", facts.cache_bytes},
                 {"driver", facts.driver},
                 {"cpu_kernels", std::string(to_string(best_vector_target()))}};
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  const auto step = [&](const char* name, const json& value) {
    report[name] = value;
    report["seconds"][name] = seconds();
    std::printf("%6.1f s %s\n", seconds(), name);
    std::fflush(stdout);
    if (options.json_file.empty()) return;
    const Status written = write_output(options.json_file, kReportFile, report.dump(1) + "\n");
    if (!written.ok()) throw std::runtime_error(written.to_string());
  };
  bool model_holds = true;
  if (!options.model.model.empty()) {
    json rows;
    model_holds = check_whole_model(options, rows);
    step("model", rows);
    print_all("a model", rows);
  }
  CudaMemory memory(static_cast<std::size_t>(facts.memory_bytes) / 10 * 8);
  Check check(memory, options.seed);
  if (!options.only_speed) {
    check_products(check, options.is_quick);
    step("products_bits", check.report());
    check_others(check);
    step("bits", check.report());
    std::printf("%s\n", check.report().dump().c_str());
  }
  if (options.only_bits) return check.holds() && model_holds ? 0 : 1;
  Speed speed(memory, facts, options.is_quick);
  step("ceilings", speed.ceilings());
  std::printf("%s\n", report["ceilings"].dump().c_str());
  step("passes", speed.passes());
  step("products", speed.products());
  step("attention", speed.attention());
  step("row_kernels", speed.row_kernels());
  step("cuts", speed.cuts());
  print_all("cuts of quantised products", report["cuts"]);
  print_all("attention", report["attention"]);
  print_all("kernels of rows", report["row_kernels"]);
  print_products(report["products"]);
  print_all("launches of a 7B pass", report["passes"]);
  std::printf("\nbits: %s\n", check.holds() ? "0 differ" : "DIFFER");
  return check.holds() && model_holds ? 0 : 1;
}

}  // namespace
}  // namespace outrider::gpu

int main(int argc, char** argv) {
  outrider::gpu::Options options;
  CLI::App app("Compares the CUDA kernels with the CPU's, bit for bit, and measures them.");
  app.add_option("--json", options.json_file, "Where to write all figures");
  app.add_flag_callback("--force", outrider::allow_replacing, "Replace a file of another kind");
  app.add_flag("--quick", options.is_quick, "Fewer shapes, shorter runs");
  app.add_flag("--only-bits", options.only_bits, "No measurements");
  app.add_flag("--only-speed", options.only_speed, "No comparison");
  app.add_flag("--compiled", options.only_compiled,
               "Only list for which architectures the kernels are in this program; needs no GPU");
  app.add_option("--model", options.model.model, "Also a model's directory or file");
  app.add_option("--dtype", options.model.dtypes, "The model's, one or more")->delimiter(',');
  app.add_option("--cases", options.model.cases, "Of the rows check, 0 to 14")
      ->check(CLI::Range(0, 14));
  app.add_option("--seed", options.seed, "Of the drawn inputs");
  CLI11_PARSE(app, argc, argv);
  outrider::cuda::add_images(outrider::cuda::check_images());
  if (options.only_compiled) return outrider::gpu::print_compiled();
  try {
    return outrider::gpu::run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "outrider-gpu-check: %s\n", error.what());
    return 2;
  }
}
