// The weights of exit adapters, and both files together. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "common/base/files.h"
#include "common/base/mapped_file.h"
#include "common/base/output_file.h"
#include "common/base/sha256.h"
#include "common/decoding/exits/adapters.h"
#include "common/engine/model/format/safetensors.h"
#include "common/engine/model/format/safetensors_writer.h"

namespace outrider {
namespace {

constexpr std::int64_t kMaxIndexBytes = std::int64_t{16} << 20;

using Entries = std::map<std::string, SafetensorsEntry, std::less<>>;

std::string tensor_name(const ExitAdapter& exit, const char* part) {
  return "exits." + std::to_string(exit.layer) + "." + part + ".weight";
}

std::string digest_of(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return hash.finish_hex();
}

// Takes tensors out of a file and removes them from the list of unused ones.
class TensorTaker final {
 public:
  TensorTaker(std::span<const std::byte> file, Entries& entries, const std::string& what)
      : file_(file), entries_(entries), what_(what) {}

  template <typename T>
  Status take(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
              std::vector<T>& out) {
    const auto found = entries_.find(name);
    if (found == entries_.end()) return data_loss(what_ + ": tensor " + name + " is missing");
    const SafetensorsEntry entry = found->second;
    entries_.erase(found);
    if (entry.dtype != dtype || entry.shape != shape) {
      return data_loss(what_ + ": tensor " + name + " is " + describe(entry.dtype, entry.shape) +
                       ", must be " + describe(dtype, shape));
    }
    out.resize(static_cast<std::size_t>(entry.end - entry.begin) / sizeof(T));
    std::memcpy(out.data(), file_.data() + entry.begin, out.size() * sizeof(T));
    const auto bad = std::find_if(out.begin(), out.end(),
                                  [](T value) { return !std::isfinite(as_float(value)); });
    if (bad == out.end()) return {};
    return data_loss(what_ + ": tensor " + name + " holds NaN or infinity at element " +
                     std::to_string(bad - out.begin()));
  }

 private:
  static float as_float(float value) { return value; }
  static float as_float(std::uint16_t bits) { return from_bf16(bits); }

  static std::string describe(DType dtype, std::span<const std::int64_t> shape) {
    std::string text(to_string(dtype));
    for (std::size_t i = 0; i < shape.size(); ++i) {
      text += (i == 0 ? " [" : ", ") + std::to_string(shape[i]);
    }
    return text + "]";
  }

  const std::span<const std::byte> file_;
  Entries& entries_;
  const std::string& what_;
};

constexpr OutputKind kIndexFile{
    .name = "an index of exits", .is_earlier = [](std::string_view content) {
      return content.starts_with("{\n \"format\":") &&
             content.find("\"weights_sha256\"") != std::string_view::npos;
    }};

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

}  // namespace

Status attach_adapter_weights(ExitAdapters& adapters, std::span<const std::byte> file,
                              const std::string& digest, const std::string& what) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<SafetensorsEntry> list,
                            parse_safetensors(file, what));
  if (digest_of(file) != digest) {
    return data_loss(what + ": SHA-256 is " + digest_of(file) + ", " + kAdapterIndexFile +
                     " was written for " + digest + ". Remedy: copy both files together");
  }
  Entries entries;
  for (const SafetensorsEntry& entry : list) entries.emplace(entry.name, entry);
  TensorTaker taker(file, entries, what);
  const std::int64_t hidden = adapters.hidden_size;
  for (ExitAdapter& exit : adapters.exits) {
    const std::int64_t bottleneck = exit.bottleneck;
    if (bottleneck == 0) {
      OUTRIDER_RETURN_IF_ERROR(taker.take(tensor_name(exit, "head"), DType::kBF16,
                                          {considered_tokens(adapters), hidden}, exit.head));
      continue;
    }
    OUTRIDER_RETURN_IF_ERROR(
        taker.take(tensor_name(exit, "norm"), DType::kF32, {hidden}, exit.norm));
    OUTRIDER_RETURN_IF_ERROR(
        taker.take(tensor_name(exit, "down"), DType::kBF16, {bottleneck, hidden}, exit.down));
    OUTRIDER_RETURN_IF_ERROR(
        taker.take(tensor_name(exit, "up"), DType::kBF16, {hidden, bottleneck}, exit.up));
  }
  if (entries.empty()) return {};
  return data_loss(what + ": tensor " + printable(entries.begin()->first) +
                   " belongs to no exit that " + kAdapterIndexFile + " names");
}

Result<ExitAdapters> load_adapters(const std::string& directory) {
  const std::string index_path = directory + "/" + kAdapterIndexFile;
  const std::string weights_path = directory + "/" + kAdapterWeightsFile;
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_file(index_path, kMaxIndexBytes));
  Result<std::unique_ptr<MappedFile>> file = MappedFile::open(weights_path);
  if (file.status().code() ==
      StatusCode::kNotFound) {  // one file without the other is damage, not absence
    return data_loss(weights_path + " is missing beside " + kAdapterIndexFile);
  }
  if (!file.ok()) return file.status();
  return parse_adapters(text, (*file)->bytes(), directory);
}

Result<ExitAdapters> parse_adapters(std::string_view index, std::span<const std::byte> weights,
                                    const std::string& what) {
  OUTRIDER_ASSIGN_OR_RETURN(AdapterIndex parsed,
                            parse_adapter_index(index, what + "/" + kAdapterIndexFile));
  OUTRIDER_RETURN_IF_ERROR(attach_adapter_weights(parsed.adapters, weights, parsed.weights_digest,
                                                  what + "/" + kAdapterWeightsFile));
  return std::move(parsed.adapters);
}

Status save_adapters(const std::string& directory, const ExitAdapters& adapters) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return invalid_argument(directory + ": " + error.message());
  const std::string weights_path = directory + "/" + kAdapterWeightsFile;
  std::vector<TensorBytes> tensors;
  for (const ExitAdapter& exit : adapters.exits) {
    const std::int64_t hidden = adapters.hidden_size, bottleneck = exit.bottleneck;
    if (bottleneck == 0) {
      tensors.push_back(
          {{tensor_name(exit, "head"), DType::kBF16, {considered_tokens(adapters), hidden}},
           bytes_of(exit.head)});
      continue;
    }
    tensors.push_back({{tensor_name(exit, "norm"), DType::kF32, {hidden}}, bytes_of(exit.norm)});
    tensors.push_back(
        {{tensor_name(exit, "down"), DType::kBF16, {bottleneck, hidden}}, bytes_of(exit.down)});
    tensors.push_back(
        {{tensor_name(exit, "up"), DType::kBF16, {hidden, bottleneck}}, bytes_of(exit.up)});
  }
  const std::string index_path = directory + "/" + kAdapterIndexFile;
  OUTRIDER_RETURN_IF_ERROR(OutputFile::check(index_path, kIndexFile));
  OUTRIDER_RETURN_IF_ERROR(write_safetensors(weights_path, std::move(tensors)));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<MappedFile> file, MappedFile::open(weights_path));
  return write_output(index_path, kIndexFile,
                      adapter_index_text({adapters, digest_of(file->bytes())}));
}

}  // namespace outrider
