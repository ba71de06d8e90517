// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/real_executor.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "bench/harness/delivery.h"
#include "common/base/files.h"
#include "common/base/thread_pool.h"
#include "emulation/process/process.h"

namespace outrider {

Result<const LinkedServer*> ServerPool::find(const ServerWish& wish) {
  const auto found = servers_.find(wish);
  if (found != servers_.end()) return &found->second;
  OUTRIDER_ASSIGN_OR_RETURN(LinkedServer started, start(wish));
  return &servers_.emplace(wish, std::move(started)).first->second;
}

// Which model, at which pace.
std::vector<std::string> ServerPool::model_arguments(const ServerWish& wish) const {
  const PaceCurve& pace = wish.draft_alone ? setting_.step : setting_.pass;
  std::vector<std::string> arguments = {
      "--model",     wish.draft_alone ? plan_.draft : plan_.target,
      "--dtype",     wish.draft_alone ? "auto" : plan_.dtype,
      "--exits",     wish.draft_alone || wish.without_exits ? "none" : plan_.exits,
      "--threads",   std::to_string(plan_.threads),
      "--device",    plan_.device,
      "--log-level", "warning"};
  if (pace.empty()) return arguments;
  arguments.insert(arguments.end(), {"--pace-pass-ms", pace.to_string()});
  if (!wish.draft_alone) {
    arguments.insert(arguments.end(),
                     {"--pace-exit-cost", fmt::format("{:.9g}", setting_.exit_cost)});
  }
  return arguments;
}

Result<LinkedServer> ServerPool::start(const ServerWish& wish) const {
  LinkedServer server;
  if (!plan_.server.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(server.address, parse_address(plan_.server));
    return server;
  }
  std::vector<std::string> arguments = model_arguments(wish);
  arguments.insert(arguments.end(), wish.flags.begin(), wish.flags.end());
  const LinkProfile link = wish.draft_alone ? delay_profile(Duration{0}) : setting_.link;
  OUTRIDER_ASSIGN_OR_RETURN(server.link,
                            start_link(link, {.seed = plan_.seed, .kind = setting_.link_kind}));
  OUTRIDER_ASSIGN_OR_RETURN(server.server,
                            ServerProcess::start(arguments, core_, server.link->server_side()));
  server.own_address = server.server->address();
  OUTRIDER_ASSIGN_OR_RETURN(server.address, server.link->route(server.server->address()));
  return server;
}

void ServerPool::drop(const ServerWish& wish) {
  const auto found = servers_.find(wish);
  if (found == servers_.end()) return;
  if (found->second.server != nullptr) {
    dropped_ = dropped_ + found->second.server->stop().value_or(PaceCounts{});
  }
  servers_.erase(found);
}

PaceCounts ServerPool::stop() {
  PaceCounts sum = std::exchange(dropped_, {});
  for (auto& [wish, server] : servers_) {
    if (server.server != nullptr) sum = sum + server.server->stop().value_or(PaceCounts{});
  }
  servers_.clear();
  return sum;
}

namespace {

// No answer of a correct set-up takes this long at any pace.
constexpr Duration kAnswerTimeout = std::chrono::minutes(30);
constexpr int kWarmUpTokens = 16;
constexpr std::int64_t kMaxTraceBytes = std::int64_t{64} << 20;

std::string number(double value) {
  return fmt::format("{:.9g}", value);
}

ServerWish server_for(const GridVariant& variant) {
  ServerWish wish{.flags = variant.server_flags,
                  .draft_alone = has_own_text(variant),
                  .without_exits = variant.without_exits};
  if (variant.server_queue) {
    wish.flags.push_back(std::string("--server-queue=") + name_of(*variant.server_queue));
  }
  return wish;
}

// Answers made in the cloud are delivered over the link afterwards.
bool is_beside_target(const GridVariant& variant) {
  return variant.place == DraftPlace::kCloud;
}

// The trace file of the edge; one edge runs at a time.
std::string trace_path() {
  const std::string name = "outrider-trace-" + std::to_string(getpid()) + ".json";
  return std::filesystem::temp_directory_path() / name;
}

// The kind of a link that was never started.
std::string unknown_kind(const GridPlan& plan) {
  return plan.server.empty() ? "" : "the real network";
}

}  // namespace

RealExecutor::RealExecutor(const GridPlan& plan)
    : plan_(plan), cores_(usable_cores()), link_kinds_(plan.settings.size(), unknown_kind(plan)) {}

std::optional<int> RealExecutor::core(std::size_t index) const {
  if (cores_.empty() || plan_.threads > 1) return std::nullopt;
  return cores_[index % cores_.size()];
}

ServerPool& RealExecutor::plain_servers() {
  if (references_ == nullptr) references_ = std::make_unique<ServerPool>(plan_, plain_, core(0));
  return *references_;
}

Status RealExecutor::warm_up() {
  for (const GridVariant& variant : plan_.variants) {
    OUTRIDER_ASSIGN_OR_RETURN(const LinkedServer* server,
                              plain_servers().find(server_for(variant)));
    const EdgeRun run{variant, plain_, plan_.prompts.front(),
                      std::min(plan_.max_tokens, kWarmUpTokens)};
    OUTRIDER_RETURN_IF_ERROR(decode(*server, run).status());
  }
  return {};
}

Result<std::vector<TokenId>> RealExecutor::reference(std::size_t prompt,
                                                     const GridSetting& setting) {
  GridSetting plain_setting = plain_;
  plain_setting.sampling = setting.sampling;
  OUTRIDER_ASSIGN_OR_RETURN(const LinkedServer* server, plain_servers().find({}));
  const GridVariant plain = variant_of(Strategy::kAr);
  const EdgeRun run{plain, plain_setting, plan_.prompts[prompt], plan_.max_tokens};
  OUTRIDER_ASSIGN_OR_RETURN(EdgeAnswer answer, decode(*server, run));
  return std::move(answer.record.ids);
}

Status RealExecutor::begin(std::size_t setting) {
  servers_ = std::make_unique<ServerPool>(plan_, plan_.settings[setting], core(0));
  return {};
}

PaceCounts RealExecutor::end() {
  return servers_->stop();
}

Result<EdgeAnswer> RealExecutor::answer(const AnswerJob& job) {
  const GridVariant& variant = plan_.variants[job.variant];
  OUTRIDER_ASSIGN_OR_RETURN(const LinkedServer* server, servers_->find(server_for(variant)));
  if (server->link != nullptr) {
    link_kinds_[job.setting] = server->link->kind();
    server->link->begin_again(link_offset(plan_, job), link_seed(plan_, job));
  }
  const EdgeRun run{variant, plan_.settings[job.setting], plan_.prompts[job.prompt],
                    plan_.max_tokens, is_traced(plan_, job)};
  Result<EdgeAnswer> answer = decode(*server, run);
  if (answer.ok() && is_beside_target(variant)) answer = delivered(*std::move(answer), job);
  if (!answer.ok()) servers_->drop(server_for(variant));
  return answer;
}

Result<EdgeAnswer> RealExecutor::delivered(EdgeAnswer answer, const AnswerJob& job) const {
  AnswerRecord record = std::move(answer.record);
  const GridSetting& setting = plan_.settings[job.setting];
  OUTRIDER_RETURN_IF_ERROR(deliver(setting.link, setting.connect_trips(), link_offset(plan_, job),
                                   link_seed(plan_, job), record));
  OUTRIDER_ASSIGN_OR_RETURN(EdgeAnswer at_user, edge_answer_of(std::move(record)));
  at_user.trace = std::move(answer.trace);
  at_user.figures.wire_up = static_cast<double>(at_user.record.traffic->bytes.framed_up);
  at_user.figures.wire_down = static_cast<double>(at_user.record.traffic->bytes.framed_down);
  return at_user;
}

Result<EdgeAnswer> RealExecutor::decode(const LinkedServer& server, const EdgeRun& run) {
  if (edge_program_.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(edge_program_, sibling_program("outrider-lab-edge"));
  }
  const CarriedBytes before = server.link != nullptr ? server.link->traffic() : CarriedBytes{};
  ProcessOptions process{.program = edge_program_, .arguments = arguments(server, run)};
  process.core = core(1);
  if (server.link != nullptr) {
    const bool beside = is_beside_target(run.variant);
    process.network_namespace =
        (beside ? server.link->server_side() : server.link->edge_side()).network_namespace;
  }
  OUTRIDER_ASSIGN_OR_RETURN(const FinishedProcess edge, run_process(process, kAnswerTimeout));
  if (edge.exit_code == 2) {
    return invalid_argument("outrider-edge refused variant " + run.variant.name + " (--strategy " +
                            name_of(run.variant.strategy) + "): " + last_error_line(edge.err));
  }
  if (edge.exit_code != 0) {
    return unavailable("outrider-edge (" + run.variant.name + ") ended with code " +
                       std::to_string(edge.exit_code) + ": " + last_error_line(edge.err));
  }
  OUTRIDER_ASSIGN_OR_RETURN(EdgeAnswer answer, read_edge_answer(last_line(edge.out)));
  if (run.traced) {
    OUTRIDER_ASSIGN_OR_RETURN(answer.trace, read_file(trace_path(), kMaxTraceBytes));
    std::filesystem::remove(trace_path());
  }
  if (server.link != nullptr && run.variant.place == DraftPlace::kEdge) {
    const CarriedBytes after = server.link->traffic();
    answer.figures.wire_up = static_cast<double>(after.up - before.up);
    answer.figures.wire_down = static_cast<double>(after.down - before.down);
    answer.link = server.link->counts();
  }
  return answer;
}

std::vector<std::string> RealExecutor::arguments(const LinkedServer& server,
                                                 const EdgeRun& run) const {
  const GridVariant& variant = run.variant;
  const SamplingParams& sampling = run.setting.sampling;
  const bool beside = is_beside_target(variant);
  const Address& address = beside ? server.own_address : server.address;
  const PaceCurve& step = beside ? run.setting.cloud_step : run.setting.step;
  std::vector<std::string> arguments = {"run",
                                        "--json",
                                        "--server=" + address.to_string(),
                                        std::string("--strategy=") + name_of(variant.strategy),
                                        "--max-tokens=" + std::to_string(run.max_tokens),
                                        "--threads=" + std::to_string(plan_.threads),
                                        "--seed=" + std::to_string(plan_.seed),
                                        "--temp=" + number(sampling.temperature),
                                        "--top-k=" + std::to_string(sampling.top_k),
                                        "--top-p=" + number(sampling.top_p),
                                        "--min-p=" + number(sampling.min_p),
                                        "--generation-config=none",
                                        "--log-level=warning"};
  if (!is_loopback(address.host)) arguments.emplace_back("--insecure");
  if (variant.strategy == Strategy::kAr) {
    arguments.push_back("--tokenizer=" + (has_own_text(variant) ? plan_.draft : plan_.target));
  } else {
    arguments.push_back("--model=" + plan_.draft);
    const int gamma = variant.gamma > 0 ? variant.gamma : plan_.gamma;
    arguments.push_back("--spec-draft-n-max=" + std::to_string(gamma));
    if (!step.empty()) arguments.push_back("--pace-step-ms=" + step.to_string());
  }
  if (plan_.unverified_by_ms && drafts_on_edge(variant)) {
    arguments.push_back("--slo=time_ms=" + number(*plan_.unverified_by_ms));
    arguments.emplace_back("--slo-unverified");
  }
  if (!plan_.grammar.empty()) arguments.push_back("--grammar=" + plan_.grammar);
  if (variant.workers) {
    arguments.push_back("--predraft-workers=" + std::to_string(*variant.workers));
  }
  if (variant.fan_out) arguments.push_back("--fan-out=" + std::to_string(*variant.fan_out));
  if (variant.client_queue) {
    arguments.push_back(std::string("--client-queue=") + name_of(*variant.client_queue));
  }
  if (!plan_.state_dir.empty()) {
    arguments.push_back("--state-dir=" + plan_.state_dir + "/" + run.setting.name + "/" +
                        variant.name);
  }
  if (run.traced) arguments.push_back("--trace=" + trace_path());
  arguments.insert(arguments.end(), variant.edge_flags.begin(), variant.edge_flags.end());
  arguments.insert(arguments.end(), plan_.edge_flags.begin(), plan_.edge_flags.end());
  arguments.push_back("--prompt=" + run.prompt);
  return arguments;
}

}  // namespace outrider
