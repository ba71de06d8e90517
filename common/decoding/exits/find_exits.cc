// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/exits/find_exits.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "common/decoding/exits/adapter_heads.h"
#include "common/engine/model/format/architecture.h"

namespace outrider {
namespace {

FoundExits none(std::string why) {
  return {nullptr, "none" + std::move(why)};
}

std::string layers_text(const ExitHeads& heads) {
  std::string text;
  for (const std::int32_t layer : heads.layers()) {
    text += (text.empty() ? "after layers " : ", ") + std::to_string(layer);
  }
  return text;
}

ExitAdapter middle_exit(const ExitAdapters& adapters) {
  std::vector<std::int32_t> layers;
  for (const ExitAdapter& exit : adapters.exits) layers.push_back(exit.layer);
  return adapters.exits.at(nearest_to_middle(layers, adapters.num_layers));
}

}  // namespace

Result<ExitAdapters> load_adapters_beside(const std::string& model,
                                          const std::string& fingerprint) {
  const std::string folder = folder_of_model(model);
  OUTRIDER_ASSIGN_OR_RETURN(ExitAdapters adapters, load_adapters(folder));
  if (folder != model && adapters.fingerprint != fingerprint) {
    return not_found(folder + "/" + kAdapterIndexFile + ": for another model, with fingerprint " +
                     adapters.fingerprint + "; " + model + " has " + fingerprint);
  }
  return adapters;
}

Result<FoundExits> find_exits(const ExitSource& source, const ModelInfo& target) {
  if (source.exits == "none") return none(" (--exits none)");
  Result<ExitAdapters> adapters = source.adapters.empty()
                                      ? load_adapters_beside(source.model, target.fingerprint)
                                      : load_adapters(source.adapters);
  const bool asked_for = !source.adapters.empty() || source.exits != "auto";
  if (adapters.status().code() == StatusCode::kNotFound && !asked_for) {
    return none(": " + adapters.status().message() + "; edges speculate without early exits");
  }
  if (!adapters.ok()) return adapters.status();
  OUTRIDER_ASSIGN_OR_RETURN(const std::shared_ptr<const ModelFiles> files,
                            load_model_files(source.model, {}));
  return exits_of(*std::move(adapters), source, *files, target);
}

Result<std::unique_ptr<ExitHeads>> find_predictor(const std::string& directory,
                                                  const ModelFiles& files,
                                                  const ModelInfo& target) {
  OUTRIDER_ASSIGN_OR_RETURN(ExitAdapters adapters, load_adapters(directory));
  return predictor_of(std::move(adapters), files, target);
}

Result<std::unique_ptr<ExitHeads>> predictor_of(ExitAdapters adapters, const ModelFiles& files,
                                                const ModelInfo& target) {
  OUTRIDER_RETURN_IF_ERROR(check_target(adapters, target));
  const std::string matrix = weight_name(output_part(files.config));
  if (reads_target_s_head(adapters) && files.weights.find(matrix) == nullptr) {
    return failed_precondition("its exits read the target's " + matrix +
                               ", which this pack does not hold. Remedy: pack the model again with "
                               "--predictor");
  }
  return make_adapter_heads(std::move(adapters), files);
}

Result<FoundExits> exits_of(ExitAdapters adapters, const ExitSource& source,
                            const ModelFiles& files, const ModelInfo& target) {
  OUTRIDER_RETURN_IF_ERROR(check_target(adapters, target));
  std::optional<ExitAdapter> pruning;
  if (source.prunes) pruning = middle_exit(adapters);
  OUTRIDER_ASSIGN_OR_RETURN(ExitAdapters selected, select_exits(std::move(adapters), source.exits));
  const std::string nothing = std::string(": ") + kAdapterIndexFile + " names no chosen exits";
  if (selected.exits.empty() && !pruning) return none(nothing);
  if (pruning && std::ranges::count(selected.exits, pruning->layer, &ExitAdapter::layer) > 0) {
    pruning.reset();
  }
  FoundExits found;
  OUTRIDER_ASSIGN_OR_RETURN(found.heads,
                            make_adapter_heads(std::move(selected), files, std::move(pruning)));
  found.about = found.heads->layers().empty() ? "none" + nothing : layers_text(*found.heads);
  return found;
}

}  // namespace outrider
