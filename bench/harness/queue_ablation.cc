// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/queue_ablation.h"

#include <fmt/core.h>

namespace outrider {
namespace {

// How much more drafting verdicts leave at `other` than at `base`; nothing if either was not run or
// counted nothing.
std::optional<Estimate> more_left(const GridCell* base, const GridCell* other) {
  if (base == nullptr || other == nullptr) return std::nullopt;
  return difference(base->answers, other->answers, &AnswerFigures::left_rate);
}

bool leaves_less(const std::optional<Estimate>& more) {
  return leaves_out_zero(more) && more->value < 0;
}

std::string queues_name(QueueOrder client, ReportQueue server) {
  return std::string(name_of(client)) + "/" + name_of(server);
}

std::string shown(const GridCell* cell) {
  const std::optional<Estimate> left = cell != nullptr ? left_rate(*cell) : std::nullopt;
  if (!left) return fmt::format(" {:20}", "-");
  const Interval around = left->interval.value_or(Interval{left->value, left->value});
  return fmt::format(" {:5.1f} % [{:4.1f}, {:4.1f}] ", 100 * left->value, 100 * around.low,
                     100 * around.high);
}

}  // namespace

std::string queue_cell(QueueOrder client, ReportQueue server, int workers) {
  return queues_name(client, server) + " " + std::to_string(workers) + "T";
}

std::optional<Estimate> left_rate(const GridCell& cell) {
  return estimate(cell.answers, &AnswerFigures::left_rate);
}

bool priority_is_best(const GridResult& result, const std::string& setting, int workers) {
  const GridCell* both =
      result.find(setting, queue_cell(QueueOrder::kPriority, ReportQueue::kPriority, workers));
  if (both == nullptr || !left_rate(*both)) return false;
  for (const QueueOrder client : kClientQueues) {
    for (const ReportQueue server : kServerQueues) {
      const GridCell* other = result.find(setting, queue_cell(client, server, workers));
      if (leaves_less(more_left(both, other))) return false;
    }
  }
  return true;
}

QueueEffects queue_effects(const GridResult& result, const std::string& setting,
                           const std::vector<int>& workers) {
  const auto cell = [&](QueueOrder client, ReportQueue server, int count) {
    return result.find(setting, queue_cell(client, server, count));
  };
  QueueEffects effects;
  for (const int count : workers) {
    const GridCell* both = cell(QueueOrder::kPriority, ReportQueue::kPriority, count);
    for (const QueueOrder client : kClientQueues) {
      effects.client |=
          leaves_out_zero(more_left(both, cell(client, ReportQueue::kPriority, count)));
    }
    for (const ReportQueue server : kServerQueues) {
      effects.server |=
          leaves_out_zero(more_left(both, cell(QueueOrder::kPriority, server, count)));
    }
    effects.workers |= leaves_out_zero(
        more_left(cell(QueueOrder::kPriority, ReportQueue::kPriority, workers.front()), both));
  }
  return effects;
}

std::string queue_table(const GridResult& result, const std::string& setting,
                        const std::vector<int>& workers) {
  std::string text = "client/server       ";
  for (const int count : workers) text += "      r (" + std::to_string(count) + "T)      ";
  text += "\n";
  for (const QueueOrder client : kClientQueues) {
    for (const ReportQueue server : kServerQueues) {
      text += fmt::format("{:20}", queues_name(client, server));
      for (const int count : workers) {
        text += shown(result.find(setting, queue_cell(client, server, count)));
      }
      text += "\n";
    }
  }
  return text;
}

}  // namespace outrider
