// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/http/ledger.h"

#include <prometheus/counter.h>
#include <prometheus/registry.h>

#include <string>

namespace outrider {
namespace {

double count(std::uint64_t number) {
  return static_cast<double>(number);
}

double rows_died(const SessionRecord& record) {
  return count(record.draft.tokens - record.draft.accepted);
}

}  // namespace

Bill bill_of(const Prices& prices, const SessionRecord& record) {
  const Usage& usage = record.usage;
  const auto fresh = count(usage.prompt_tokens - usage.cached_tokens);
  Bill bill;
  bill.api = (fresh * prices.api.input + count(usage.cached_tokens) * prices.api.cached_input +
              count(usage.completion_tokens) * prices.api.output) /
             1e6;
  if (prices.gpu_dollars_per_hour) {
    bill.device = *prices.gpu_dollars_per_hour * to_seconds(usage.compute) / 3600;
  }
  if (record.traffic != nullptr && prices.link_dollars_per_mb > 0) {
    bill.link =
        prices.link_dollars_per_mb * count(record.traffic->up() + record.traffic->down()) / 1e6;
  }
  return bill;
}

std::vector<LogField> audit_fields(const SessionRecord& record, const Prices* prices) {
  const Usage& usage = record.usage;
  std::vector<LogField> fields = {{"session", record.session_id},
                                  {"tenant", record.tenant},
                                  {"request_id", record.request_id},
                                  {"prompt_tokens", usage.prompt_tokens},
                                  {"cached_tokens", usage.cached_tokens},
                                  {"completion_tokens", usage.completion_tokens},
                                  {"passes", usage.passes},
                                  {"rows", usage.rows},
                                  {"rows_died", record.draft.tokens - record.draft.accepted},
                                  {"device_s", to_seconds(usage.compute)},
                                  {"lasted_s", to_seconds(record.lasted)}};
  if (record.traffic != nullptr) {
    fields.emplace_back("bytes_up", record.traffic->up());
    fields.emplace_back("bytes_down", record.traffic->down());
  }
  if (record.joules) fields.emplace_back("joules", *record.joules);
  if (prices == nullptr) return fields;
  const Bill bill = bill_of(*prices, record);
  if (bill.api) fields.emplace_back("api_dollars", *bill.api);
  if (bill.device) fields.emplace_back("device_dollars", *bill.device);
  if (bill.link) fields.emplace_back("link_dollars", *bill.link);
  fields.emplace_back("prices_of", prices->date);
  return fields;
}

struct TenantLedger::Totals {
  using Family = prometheus::Family<prometheus::Counter>;

  Totals(prometheus::Registry& its_registry, const std::string& model_name)
      : registry(its_registry), labels{{"model_name", model_name}} {}

  Family& family(const char* name, const char* help) {
    return prometheus::BuildCounter()
        .Name(std::string("outrider_tenant_") + name)
        .Help(help)
        .Labels(labels)
        .Register(registry);
  }

  prometheus::Registry& registry;
  const prometheus::Labels labels;
  Family& sessions = family("sessions_total", "Sessions of each tenant");
  Family& passes = family("target_passes_total", "Target passes for each tenant");
  Family& rows = family("rows_total", "Rows computed for each tenant");
  Family& dead = family("rows_died_total", "Rows of drafted tokens that did not become text");
  Family& device =
      family("device_seconds_total", "Seconds that the device computed for each tenant");
  Family& bytes = family("bytes_total", "Bytes of messages from each tenant (up) and to it (down)");
  Family& joules = family("joules_total", "Energy of the processors during each tenant's passes");
  Family& dollars = family("dollars_total",
                           "Cost by the price file: tokens at an API's prices, time of a rented "
                           "device, bytes of the link");
};

TenantLedger::TenantLedger(prometheus::Registry& registry, const std::string& model_name,
                           const Prices* prices)
    : prices_(prices), totals_(std::make_unique<Totals>(registry, model_name)) {}
TenantLedger::~TenantLedger() = default;

void TenantLedger::add(const SessionRecord& record) {
  Totals& t = *totals_;
  const std::string& tenant = record.tenant;
  t.sessions.Add({{"tenant", tenant}}).Increment();
  t.passes.Add({{"tenant", tenant}}).Increment(count(record.usage.passes));
  t.rows.Add({{"tenant", tenant}}).Increment(count(record.usage.rows));
  t.dead.Add({{"tenant", tenant}}).Increment(rows_died(record));
  t.device.Add({{"tenant", tenant}}).Increment(to_seconds(record.usage.compute));
  if (record.traffic != nullptr) {
    t.bytes.Add({{"tenant", tenant}, {"direction", "up"}}).Increment(count(record.traffic->up()));
    t.bytes.Add({{"tenant", tenant}, {"direction", "down"}})
        .Increment(count(record.traffic->down()));
  }
  if (record.joules) t.joules.Add({{"tenant", tenant}}).Increment(*record.joules);
  if (prices_ == nullptr) return;
  const Bill bill = bill_of(*prices_, record);
  const auto charge = [&](const char* what, std::optional<double> dollars) {
    if (!dollars) return;
    t.dollars.Add({{"tenant", tenant}, {"of", what}, {"prices_of", prices_->date}})
        .Increment(*dollars);
  };
  charge("api", bill.api);
  charge("device", bill.device);
  charge("link", bill.link);
}

}  // namespace outrider
