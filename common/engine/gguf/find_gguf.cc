// SPDX-License-Identifier: Apache-2.0
#include "common/engine/gguf/find_gguf.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace outrider {
namespace {

constexpr std::string_view kExtension = ".gguf";
constexpr std::string_view kOf = "-of-";
constexpr std::size_t kDigits = 5;
// "-00001-of-00002.gguf"
constexpr std::size_t kSuffix = 1 + kDigits + kOf.size() + kDigits + kExtension.size();

std::optional<std::size_t> five_digits(std::string_view text) {
  std::size_t number = 0;
  for (const char c : text) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) return std::nullopt;
    number = number * 10 + static_cast<std::size_t>(c - '0');
  }
  return number;
}

struct PartName {
  std::string stem;        // with its folder, up to the dash
  std::size_t number = 0;  // from 1
  std::size_t count = 0;
};

std::optional<PartName> parse_part_name(std::string_view path) {
  if (path.size() <= kSuffix || !path.ends_with(kExtension)) return std::nullopt;
  const std::string_view suffix = path.substr(path.size() - kSuffix);
  if (suffix[0] != '-' || suffix.substr(1 + kDigits, kOf.size()) != kOf) return std::nullopt;
  const auto number = five_digits(suffix.substr(1, kDigits));
  const auto count = five_digits(suffix.substr(1 + kDigits + kOf.size(), kDigits));
  if (!number || !count || *number < 1 || *number > *count) return std::nullopt;
  return PartName{std::string(path.substr(0, path.size() - kSuffix)), *number, *count};
}

std::string part_name(const std::string& stem, std::size_t number, std::size_t count) {
  const auto digits = [](std::size_t value) {
    const std::string text = std::to_string(value);
    return std::string(kDigits - std::min(kDigits, text.size()), '0') + text;
  };
  return stem + "-" + digits(number) + std::string(kOf) + digits(count) + std::string(kExtension);
}

}  // namespace

std::vector<std::string> gguf_parts(const std::string& path) {
  const std::optional<PartName> part = parse_part_name(path);
  if (!part) return {path};
  std::vector<std::string> parts;
  for (std::size_t i = 1; i <= part->count; ++i) {
    parts.push_back(part_name(part->stem, i, part->count));
  }
  return parts;
}

std::string gguf_name(const std::string& path) {
  const std::optional<PartName> part = parse_part_name(path);
  if (part) return std::filesystem::path(part->stem).filename().string();
  const std::filesystem::path name = std::filesystem::path(path).filename();
  return (name.extension() == kExtension ? name.stem() : name).string();
}

Result<std::optional<std::string>> find_gguf(const std::string& path) {
  std::error_code error;
  const auto kind = std::filesystem::status(path, error).type();
  if (kind == std::filesystem::file_type::not_found) return std::optional<std::string>();
  if (kind != std::filesystem::file_type::directory) return std::optional(path);
  std::vector<std::string> found;
  std::filesystem::directory_iterator entry(path, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name == "model.safetensors" || name == "model.safetensors.index.json") {
      return std::optional<std::string>();
    }
    const std::optional<PartName> part = parse_part_name(name);
    if (name.ends_with(kExtension) && (!part || part->number == 1)) found.push_back(name);
  }
  if (error) return invalid_argument(path + ": " + error.message());
  if (found.empty()) return std::optional<std::string>();
  if (found.size() == 1) return std::optional((std::filesystem::path(path) / found[0]).string());
  std::sort(found.begin(), found.end());
  std::string names;
  for (const std::string& name : found) names += (names.empty() ? "" : ", ") + printable(name);
  return invalid_argument(path + ": holds " + std::to_string(found.size()) + " GGUF models (" +
                          names.substr(0, 400) + "); name one of the files");
}

std::string remedy_without_model(const std::string& path) {
  const auto has = [&](const char* name) {
    std::error_code error;
    return std::filesystem::exists(std::filesystem::path(path) / name, error);
  };
  if (has("layers.safetensors")) {
    return ". Remedy: it holds a draft's layers alone, of which 'outrider-train compose --target "
           "TARGET --layers " +
           path + " --out DRAFT' makes a model; name that";
  }
  if (has("adapters.safetensors")) {
    return ". Remedy: it holds exits of a target; name the target's folder, and copy them into it";
  }
  return ". Remedy: name the folder or the GGUF file of a whole model";
}

}  // namespace outrider
