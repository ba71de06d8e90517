// SPDX-License-Identifier: Apache-2.0
#include "common/model/format/weight_index.h"

#include <algorithm>
#include <cctype>

#include "common/base/json.h"
#include "common/model/format/safetensors.h"

namespace outrider {
namespace {

bool is_plain_name(std::string_view name) {
  constexpr std::size_t kLongest = 255;
  const auto allowed = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  };
  return name.size() <= kLongest && name.ends_with(".safetensors") && !name.starts_with('.') &&
         std::all_of(name.begin(), name.end(), allowed);
}

Status no_plain_name(const std::string& what, const std::string& tensor, const Json& file) {
  const std::string shown = file.is_string() ? printable(file.get<std::string>()) : "no string";
  return data_loss(what + ": tensor " + printable(tensor) + " is in file " + shown +
                   "; must be a plain name such as model-00001-of-00002.safetensors");
}

}  // namespace

Result<std::map<std::string, std::string>> parse_weight_index(std::string_view text,
                                                              const std::string& what) {
  OUTRIDER_ASSIGN_OR_RETURN(const Json json, parse_json(text, what));
  const auto found = json.is_object() ? json.find("weight_map") : json.end();
  if (!json.is_object() || found == json.end() || !found->is_object() || found->empty()) {
    return data_loss(what + ": no object weight_map from tensors to files");
  }
  if (found->size() > kMaxSafetensorsTensors) {
    return data_loss(what + ": weight_map names " + std::to_string(found->size()) +
                     " tensors, at most " + std::to_string(kMaxSafetensorsTensors));
  }
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : found->items()) {
    if (!file.is_string() || !is_plain_name(file.get_ref<const std::string&>())) {
      return no_plain_name(what, tensor, file);
    }
    files.emplace(tensor, file.get<std::string>());
  }
  return files;
}

}  // namespace outrider
