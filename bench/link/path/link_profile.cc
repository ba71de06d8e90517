// SPDX-License-Identifier: Apache-2.0
#include "bench/link/path/link_profile.h"

#include <cstdio>

#include "bench/link/path/jitter.h"
#include "bench/link/path/loss.h"

namespace outrider {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

std::string rate_of(const PathSettings& path) {
  if (path.opportunities != nullptr || path.rates != nullptr) return "by the trace";
  return path.bit_per_s > 0 ? number(path.bit_per_s / 1e6) + " Mbit/s" : "no limit";
}

std::string jitter_of(const PathSettings& path) {
  if (path.jitter.law == JitterSettings::Law::kNone) return "";
  const char* law = path.jitter.law == JitterSettings::Law::kNormal ? "normal" : "Pareto";
  return std::string(" (") + law + ", deviation " + number(to_ms(path.jitter.deviation)) +
         ", at least " + number(to_ms(Jitter::floor_of(path))) + ", correlation " +
         number(to_ms(path.jitter.correlation)) + " ms)";
}

std::string delay_of(const PathSettings& path) {
  if (path.delays != nullptr) return "delay by the trace";
  return number(to_ms(path.delay)) + " ms" + jitter_of(path);
}

std::string loss_of(const PathSettings& path) {
  std::string text;
  if (const double mean = mean_loss(path.loss); mean > 0) {
    text +=
        ", " + number(mean * 100) + " % lost" + (path.loss.burst.to_bad > 0 ? " in bursts" : "");
  }
  for (const LossWindow& window : path.loss.windows) {
    text +=
        ", " + number(window.share * 100) + " % lost for " + number(to_ms(window.length)) + " ms" +
        (window.period > Duration::zero() ? " every " + number(to_seconds(window.period)) + " s"
                                          : " after " + number(to_seconds(window.first)) + " s");
  }
  if (path.duplicate > 0) text += ", " + number(path.duplicate * 100) + " % twice";
  if (path.reorder > 0) {
    text += ", " + number(path.reorder * 100) + " % overtaken, " + number(to_ms(path.reorder_by)) +
            " ms late";
  }
  return text;
}

std::string description_of(const PathSettings& path) {
  if (path.silent_from && *path.silent_from == Duration::zero()) return "nothing arrives";
  std::string text = delay_of(path) + ", " + rate_of(path);
  if (path.has_rate())
    text += ", queue " + number(static_cast<double>(path.queue_bytes) / 1024) + " KiB";
  text += loss_of(path);
  if (path.silent_from) text += ", silent from " + number(to_seconds(*path.silent_from)) + " s";
  return text;
}

}  // namespace

std::string LinkProfile::description() const {
  const std::string upwards = description_of(up), downwards = description_of(down);
  std::string text = name + ": ";
  text += upwards == downwards ? "each way " + upwards : "up " + upwards + "; down " + downwards;
  if (reset_at) text += "; reset after " + number(to_seconds(*reset_at)) + " s";
  if (!chosen.empty()) text += "; chosen: " + chosen;
  if (!source.empty()) text += "; source: " + source;
  return text;
}

}  // namespace outrider
