// A pack from an untrusted source. The first line of the input names a real pack; each further line
// is an edit of its index or config:
//
//   replace /tensors/3/interleaved 7
//   replace /config/num_hidden_layers 3
//   remove /matrices/0
//
// Checksums are corrected after the edits, so that they do not hide the readers. An accepted pack
// is read completely: its tensors, then a pass of the model, with each tensor and matrix in memory
// of exactly its size, so that AddressSanitizer detects a read beyond. The same input is also used
// as a whole file, and as the text of an index. SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cpu/model_pack.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/json_record.h"
#include "common/base/posix.h"
#include "common/base/thread_pool.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/cpu/kernels/weight_memory.h"
#include "common/engine/model/cpu/model_pack_writer.h"
#include "common/engine/model/cpu/pack/pack_checksum.h"
#include "common/engine/model/format/model_writer.h"

namespace {

using namespace outrider;

void check(bool condition) {
  if (!condition) __builtin_trap();
}

template <typename T>
T must(Result<T> result) {
  if (!result.ok()) std::fprintf(stderr, "%s\n", result.status().to_string().c_str());
  check(result.ok());
  return *std::move(result);
}

// The parts of a written pack, from which the edits start.
struct RealPack {
  std::string extents;  // header and extents
  Json index;
  Json config;
};

struct Kind {
  const char* family;
  const char* dtype;
  bool has_biases;  // interleaved ones, as of a GGUF file
  std::vector<TokenId> shortlist;
};

ModelConfig config_of(const Kind& kind) {
  ModelConfig config;
  config.architecture = kind.family;
  config.vocab_size = 37;
  config.hidden_size = 32;
  config.intermediate_size = 40;
  config.num_layers = 2;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 8;
  config.max_positions = 64;
  config.windows = {0, 0};
  config.tied_embeddings = !kind.shortlist.empty();
  config.qkv_bias = kind.has_biases || config.architecture == "qwen2";
  config.o_bias = kind.has_biases;
  config.head_tokens = kind.shortlist;
  config.stop_ids = {3};
  if (config.architecture == "mixtral") config.experts = {.count = 3, .used = 2, .inner_size = 40};
  return config;
}

// The model with query and key biases in GGUF's order of rows.
std::shared_ptr<const ModelFiles> interleaved(const ModelFiles& files) {
  auto tensors = files.weights.tensors();
  for (const TensorSpec& spec : expected_tensors(files.config)) {
    if (spec.rotated) tensors[spec.name].interleaved = files.config.head_dim;
  }
  return std::make_shared<const ModelFiles>(
      ModelFiles{.name = files.name,
                 .config = files.config,
                 .weights = Weights::from_views(nullptr, std::move(tensors)),
                 .fingerprint = files.fingerprint});
}

RealPack make_pack(const Kind& kind) {
  std::string pattern = (std::filesystem::temp_directory_path() / "fuzz-pack-XXXXXX").string();
  const std::string folder = ::mkdtemp(pattern.data());
  const Status model = write_model(folder + "/m", config_of(kind), DType::kF32, random_source(7));
  check(model.ok());
  const auto stored = must(load_model_files(folder + "/m", {}));
  const auto files = kind.has_biases ? interleaved(*stored) : stored;
  ThreadPool pool(1);
  const CpuWeights weights =
      must(CpuWeightsLoader(kernels_for(must(find_vector_target("auto"))), pool, {"", {}}, {})
               .load(files, must(parse_compute_type(kind.dtype))));
  const std::vector<PackText> texts = {{"a.txt", "some text"}};
  check(write_model_pack(folder + "/p", weights, {.texts = texts, .for_exits = true}).ok());
  const auto file = must(MappedFile::open(folder + "/p"));
  const auto* begin = reinterpret_cast<const char*>(file->bytes().data());
  RealPack pack;
  pack.index = write_json(must(parse_pack_index(file->bytes(), "real")));
  pack.extents = {begin, file->bytes().size() - pack.index.dump().size()};
  const PackedFile config = must(read_json<PackedFile>(pack.index["files"][0], "real"));
  pack.config = must(parse_json({begin + config.offset, config.bytes}, "real"));
  std::filesystem::remove_all(folder);
  return pack;
}

const std::vector<RealPack>& real_packs() {
  static const std::vector<RealPack> packs = {
      make_pack({.family = "llama", .dtype = "int4", .has_biases = true, .shortlist = {}}),
      make_pack({.family = "qwen2", .dtype = "f32", .has_biases = false, .shortlist = {}}),
      make_pack({.family = "llama", .dtype = "int8", .has_biases = false, .shortlist = {1, 5, 8}}),
      make_pack({.family = "mixtral", .dtype = "int4", .has_biases = false, .shortlist = {}}),
  };
  return packs;
}

// Copies of exactly this size, so that a read beyond it is detected.
class Copies {
 public:
  const std::byte* of(const void* from, std::size_t count) {
    check(count <= bytes_.size() && from >= bytes_.data() &&
          static_cast<const std::byte*>(from) <= bytes_.data() + (bytes_.size() - count));
    copies_.push_back(std::make_unique<std::byte[]>(count));
    std::memcpy(copies_.back().get(), from, count);
    return copies_.back().get();
  }
  explicit Copies(std::span<const std::byte> file) : bytes_(file) {}

 private:
  std::span<const std::byte> bytes_;
  std::vector<std::unique_ptr<std::byte[]>> copies_;
};

void run_pass(CpuWeights weights) {
  const Result<std::unique_ptr<Model>> model =
      make_cpu_model(std::move(weights), nullptr, {.threads = 1});
  if (!model.ok()) return;  // a size that the backend does not support
  if ((*model)->info().max_positions < 4) return;
  const auto cache = must((*model)->new_cache(4));
  std::vector<Row> rows;
  Slot last = kRootSlot;
  for (const TokenId token : {0, 1, (*model)->info().vocab_size - 1}) {
    last = must(cache->slots().append(last));
    rows.push_back({cache.get(), last, std::min(token, (*model)->info().vocab_size - 1), true});
  }
  PassOutput out;
  check((*model)->forward(rows, out).ok());
}

void read_whole(const ModelPack& pack, std::size_t file_bytes) {
  Copies copies({pack.base(), file_bytes});
  for (auto [name, tensor] : pack.files().weights.tensors()) {
    tensor.data = copies.of(tensor.data, tensor.num_bytes);
    (void)widened(tensor);
  }
  CpuWeights weights = must(pack.weights());
  weights.embedding.data = copies.of(weights.embedding.data, weights.embedding.num_bytes);
  const auto copy = [&copies](WeightMatrix& matrix) {
    matrix.data = copies.of(matrix.data, static_cast<std::size_t>(bytes_of(matrix)));
  };
  for (CpuLayer& layer : weights.layers) {
    visit_matrices(layer, [&copy](LinearWeights& each) { copy(each.matrix); });
  }
  copy(weights.head.matrix);
  run_pass(std::move(weights));
}

void open_pack(std::string_view bytes) {
  const UniqueFd file(::memfd_create("fuzz-pack", MFD_CLOEXEC));
  check(file.valid() &&
        ::write(file.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  const std::string path = "/proc/self/fd/" + std::to_string(file.get());
  const Result<ModelPack> pack = ModelPack::open(path);
  if (pack.ok()) {
    read_whole(*pack, bytes.size());
  } else {
    check(pack.status().message().starts_with(path));
  }
}

// Behind real extents, with valid checksums.
void open_with_index(std::string extents, Json index) {
  if (index.is_object() && index["extents"].is_array()) {
    for (Json& each : index["extents"]) {
      const auto extent = read_json<PackExtent>(each, "edited");
      if (!extent.ok() || extent->offset > extents.size() ||
          extent->bytes > extents.size() - extent->offset) {
        continue;
      }
      each["checksum"] =
          pack_checksum(std::as_bytes(std::span(extents).subspan(extent->offset, extent->bytes)));
    }
  }
  const std::string text = index.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string file = write_pack_header(extents.size(), std::as_bytes(std::span(text)));
  open_pack(file + extents.substr(kPackPage) + text);
}

// The config in its place, if it fits there.
bool place_config(const Json& config, std::string& extents, Json& index) {
  const auto place = read_json<PackedFile>(index["files"][0], "real");
  const std::string text = config.dump(-1, ' ', false, Json::error_handler_t::replace);
  const auto filled = (place->bytes + kPackAlignment - 1) / kPackAlignment * kPackAlignment;
  if (text.size() > filled) return false;
  extents.replace(place->offset, filled, text + std::string(filled - text.size(), ' '));
  index["files"][0]["bytes"] = filled;
  return true;
}

// One line of the input; a line that is no edit, or has no such place, is skipped.
void edit(std::string_view line, Json& index, Json& config) {
  constexpr std::string_view kConfig = "/config";
  const std::size_t first = line.find(' ');
  if (first == std::string_view::npos) return;
  const std::string_view verb = line.substr(0, first);
  line.remove_prefix(first + 1);
  const std::size_t second = std::min(line.find(' '), line.size());
  std::string_view pointer = line.substr(0, second);
  const bool of_config = pointer.starts_with(kConfig);
  if (of_config) pointer.remove_prefix(kConfig.size());
  Json operation = {{"op", verb}, {"path", pointer}};
  const auto value = parse_json(line.substr(std::min(second + 1, line.size())), "edit");
  if (value.ok()) operation["value"] = *value;
  Json& edited = of_config ? config : index;
  try {
    edited = edited.patch(Json::array({operation}));
  } catch (const Json::exception&) {
  }
}

void open_edited(std::string_view edits) {
  if (edits.empty()) return;
  const auto& packs = real_packs();
  const RealPack& pack = packs[static_cast<unsigned char>(edits[0]) % packs.size()];
  Json index = pack.index;
  Json config = pack.config;
  std::string extents = pack.extents;
  edits.remove_prefix(std::min(edits.find('\n'), edits.size() - 1) + 1);
  while (!edits.empty()) {
    const std::string_view line = edits.substr(0, edits.find('\n'));
    edits.remove_prefix(std::min(line.size() + 1, edits.size()));
    edit(line, index, config);
  }
  if (config != pack.config) {
    Json placed = pack.index;
    if (!place_config(config, extents, placed)) return;
    if (index.is_object() && index["files"].is_array() && !index["files"].empty() &&
        index["files"][0].is_object()) {
      index["files"][0]["bytes"] = placed["files"][0]["bytes"];
    }
  }
  open_with_index(std::move(extents), std::move(index));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  open_edited(text);
  if (!text.empty()) open_pack(text);
  const Result<Json> index = parse_json(text, "fuzzed");
  if (index.ok()) open_with_index(real_packs()[0].extents, *index);
  return 0;
}
