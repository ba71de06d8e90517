// SPDX-License-Identifier: Apache-2.0
#include "common/serving/ledger/ledger_counters.h"

#include <utility>

namespace outrider {
namespace {

double to_number(std::uint64_t number) {
  return static_cast<double>(number);
}

}  // namespace

struct LedgerCounters::Totals {
  Totals(MetricRegistry& its_registry, std::string its_prefix, const std::string& bytes_name,
         const MetricLabels& its_labels)
      : registry(its_registry),
        prefix(std::move(its_prefix)),
        labels(its_labels),
        bytes(family(bytes_name, "Bytes of messages from the edge (up) and to it (down)")) {}

  MetricFamily& family(const std::string& name, const char* help) {
    return registry.counters(prefix + name, help, labels);
  }

  MetricRegistry& registry;
  const std::string prefix;
  const MetricLabels labels;
  MetricFamily& passes = family("target_passes_total", "Passes of the target");
  MetricFamily& rows = family("rows_total", "Rows that they computed");
  MetricFamily& dead = family("rows_died_total", "Rows of drafted tokens that did not become text");
  MetricFamily& device = family("device_seconds_total", "Seconds that the target computed");
  MetricFamily& bytes;
  MetricFamily& joules = family("joules_total", "Energy of the processors meanwhile");
  MetricFamily& dollars =
      family("dollars_total",
             "Cost by the price file: tokens at an API's prices, time of a rented "
             "device, bytes of the link, an edge's power");
};

LedgerCounters::LedgerCounters(MetricRegistry& registry, const std::string& prefix,
                               const std::string& bytes, const MetricLabels& labels)
    : totals_(std::make_unique<Totals>(registry, prefix, bytes, labels)) {}
LedgerCounters::~LedgerCounters() = default;

void LedgerCounters::add(const LedgerEntry& entry, const std::optional<Bill>& bill,
                         const MetricLabels& whose) {
  Totals& t = *totals_;
  const auto with = [&whose](const MetricLabels& more) {
    MetricLabels all = whose;
    all.insert(more.begin(), more.end());
    return all;
  };
  t.passes.with(whose).add(to_number(entry.passes));
  t.rows.with(whose).add(to_number(entry.rows));
  t.dead.with(whose).add(to_number(entry.rows_died));
  t.device.with(whose).add(to_seconds(entry.device));
  if (entry.bytes) {
    t.bytes.with(with({{"direction", "up"}})).add(to_number(entry.bytes->up));
    t.bytes.with(with({{"direction", "down"}})).add(to_number(entry.bytes->down));
  }
  if (entry.joules) t.joules.with(whose).add(*entry.joules);
  if (!bill) return;
  const auto charge = [&](const char* what, std::optional<double> dollars) {
    if (!dollars) return;
    t.dollars.with(with({{"of", what}, {"prices_of", bill->prices_of}})).add(*dollars);
  };
  charge("api", bill->api);
  charge("device", bill->device);
  charge("link", bill->link);
  charge("power", bill->power);
}

}  // namespace outrider
