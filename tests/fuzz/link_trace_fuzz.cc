// Traces of links: any bytes give a usable trace, or an error that names it.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "emulation/path/impaired_path.h"
#include "emulation/path/trace_profile.h"

namespace {

// An accepted trace must deliver packets in order, in finite time.
void send_over(const outrider::PathSettings& settings) {
  outrider::ImpairedPath path(settings, 1);
  outrider::Duration last{0};
  for (int i = 0; i < 20; ++i) {
    const outrider::Fate fate = path.send(1500, std::chrono::milliseconds(40 * i));
    if (!fate.arrives()) continue;
    OUTRIDER_CHECK(fate.due >= last);
    last = fate.due;
  }
}

template <typename Trace>
const Trace* accepted(const outrider::Result<Trace>& trace) {
  if (trace.ok()) return &*trace;
  OUTRIDER_CHECK(trace.status().message().starts_with("trace:"));
  OUTRIDER_CHECK(trace.status().message().size() < 300);
  return nullptr;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  outrider::PathSettings settings;
  settings.queue_bytes = 1 << 20;
  outrider::has_two_columns(text);
  const auto opportunities = outrider::parse_opportunities(text, "trace");
  if (const auto* trace = accepted(opportunities)) {
    settings.opportunities = std::make_shared<const outrider::OpportunityTrace>(*trace);
    send_over(settings);
    settings.opportunities = nullptr;
  }
  const auto rates = outrider::parse_rates(text, "trace");
  if (const auto* trace = accepted(rates)) {
    settings.rates = std::make_shared<const outrider::RateTrace>(*trace);
    send_over(settings);
    settings.rates = nullptr;
  }
  const auto delays = outrider::parse_delays(text, "trace");
  if (const auto* trace = accepted(delays)) {
    settings.delays = std::make_shared<const outrider::DelayTrace>(*trace);
    send_over(settings);
  }
  return 0;
}
