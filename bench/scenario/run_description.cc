// SPDX-License-Identifier: Apache-2.0
#include "bench/scenario/run_description.h"

#include <string>
#include <utility>
#include <vector>

#include "common/base/json_record.h"
#include "common/base/sha256.h"
#include "common/model/format/model_files.h"

namespace outrider {
namespace {

std::string hash_of(const std::vector<std::string>& prompts) {
  Sha256 hash;
  for (const std::string& prompt : prompts) {
    hash.update(prompt);
    hash.update("\n");
  }
  return hash.finish_hex();
}

Json model_json(const std::string& path) {
  const auto files = load_model_files(path, {});
  return {{"path", path}, {"fingerprint", files.ok() ? Json((*files)->fingerprint) : Json()}};
}

}  // namespace

Json run_identity(const RunFlags& flags, const GridPlan& plan) {
  Json settings = Json::array();
  for (const GridSetting& setting : plan.settings) {
    settings.push_back(
        {{"name", setting.name},
         {"link", setting.link.description()},
         {"pass", setting.pass.to_string()},
         {"step", setting.step.to_string()},
         {"cloud_step", setting.cloud_step.to_string()},
         {"exit_cost", setting.exit_cost},
         {"synthetic", setting.synthetic ? write_json(*setting.synthetic) : Json()}});
  }
  Json variants = Json::array();
  for (const GridVariant& variant : plan.variants) {
    const int gamma = variant.gamma > 0 ? variant.gamma : plan.gamma;
    variants.push_back(variant.name + ", " + std::to_string(gamma));
  }
  return {{"target", plan.target},
          {"draft", plan.draft},
          {"dtype", plan.dtype},
          {"exits", plan.exits},
          {"device", plan.device},
          {"learns", !plan.state_dir.empty()},
          {"server", plan.server},
          {"threads", plan.threads},
          {"clock", name_of(flags.clock)},
          {"link", name_of(flags.link_kind)},
          {"seed", plan.seed},
          {"max_tokens", plan.max_tokens},
          {"repetitions", plan.repetitions},
          {"prompts_sha256", hash_of(plan.prompts)},
          {"settings", std::move(settings)},
          {"variants", std::move(variants)}};
}

RunDescription describe_run(const RunFlags& flags, const GridPlan& plan) {
  RunDescription run;
  run.models = {{"target", model_json(plan.target)}, {"draft", model_json(plan.draft)}};
  run.setup = {{"dtype", plan.dtype},
               {"exits", plan.exits},
               {"device", plan.device},
               {"threads", plan.threads},
               {"learns", !plan.state_dir.empty()}};
  run.machine = about_machine();
  run.clock = flags.clock;
  run.seed = plan.seed;
  run.prompts = flags.grid.prompts;
  run.prompts_hash = hash_of(plan.prompts);
  run.num_prompts = plan.prompts.size();
  run.repetitions = plan.repetitions;
  run.max_tokens = plan.max_tokens;
  run.limits = flags.limits;
  return run;
}

}  // namespace outrider
