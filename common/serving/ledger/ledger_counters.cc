// SPDX-License-Identifier: Apache-2.0
#include "common/serving/ledger/ledger_counters.h"

#include <prometheus/counter.h>
#include <prometheus/registry.h>

#include <utility>

namespace outrider {
namespace {

double count(std::uint64_t number) {
  return static_cast<double>(number);
}

}  // namespace

struct LedgerCounters::Totals {
  using Family = prometheus::Family<prometheus::Counter>;

  Totals(prometheus::Registry& its_registry, std::string its_prefix, const std::string& bytes_name,
         const Labels& its_labels)
      : registry(its_registry),
        prefix(std::move(its_prefix)),
        labels(its_labels),
        bytes(family(bytes_name, "Bytes of messages from the edge (up) and to it (down)")) {}

  Family& family(const std::string& name, const char* help) {
    return prometheus::BuildCounter()
        .Name(prefix + name)
        .Help(help)
        .Labels(labels)
        .Register(registry);
  }

  prometheus::Registry& registry;
  const std::string prefix;
  const Labels labels;
  Family& passes = family("target_passes_total", "Passes of the target");
  Family& rows = family("rows_total", "Rows that they computed");
  Family& dead = family("rows_died_total", "Rows of drafted tokens that did not become text");
  Family& device = family("device_seconds_total", "Seconds that the target computed");
  Family& bytes;
  Family& joules = family("joules_total", "Energy of the processors meanwhile");
  Family& dollars = family("dollars_total",
                           "Cost by the price file: tokens at an API's prices, time of a rented "
                           "device, bytes of the link, an edge's power");
};

LedgerCounters::LedgerCounters(prometheus::Registry& registry, const std::string& prefix,
                               const std::string& bytes, const Labels& labels)
    : totals_(std::make_unique<Totals>(registry, prefix, bytes, labels)) {}
LedgerCounters::~LedgerCounters() = default;

void LedgerCounters::add(const LedgerEntry& entry, const std::optional<Bill>& bill,
                         const Labels& whose) {
  Totals& t = *totals_;
  const auto with = [&whose](const Labels& more) {
    Labels all = whose;
    all.insert(more.begin(), more.end());
    return all;
  };
  t.passes.Add(whose).Increment(count(entry.passes));
  t.rows.Add(whose).Increment(count(entry.rows));
  t.dead.Add(whose).Increment(count(entry.rows_died));
  t.device.Add(whose).Increment(to_seconds(entry.device));
  if (entry.bytes) {
    t.bytes.Add(with({{"direction", "up"}})).Increment(count(entry.bytes->up));
    t.bytes.Add(with({{"direction", "down"}})).Increment(count(entry.bytes->down));
  }
  if (entry.joules) t.joules.Add(whose).Increment(*entry.joules);
  if (!bill) return;
  const auto charge = [&](const char* what, std::optional<double> dollars) {
    if (!dollars) return;
    t.dollars.Add(with({{"of", what}, {"prices_of", bill->prices_of}})).Increment(*dollars);
  };
  charge("api", bill->api);
  charge("device", bill->device);
  charge("link", bill->link);
  charge("power", bill->power);
}

}  // namespace outrider
