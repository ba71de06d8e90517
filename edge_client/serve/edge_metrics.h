// The metrics of an edge that serves, for Prometheus, under vLLM's names where it has them.
//
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "common/base/mutex.h"
#include "common/serving/tracing/tracer.h"
#include "edge_client/report/answer_report.h"
#include "edge_client/report/jetson.h"
#include "edge_client/serve/link_watch.h"

namespace outrider {

class EdgeMetrics final {
 public:
  explicit EdgeMetrics(const std::string& model_name);
  ~EdgeMetrics();
  EdgeMetrics(const EdgeMetrics&) = delete;
  EdgeMetrics& operator=(const EdgeMetrics&) = delete;

  // Labels all figures with another name, if no answer was counted yet: the target's name is known
  // when it has said it, and empty before. Afterwards the name stays.
  void rename(const std::string& model_name);

  // An answer has ended.
  void observe(const AnswerReport& report);

  struct Now {
    std::size_t running = 0;
    std::size_t waiting = 0;
    LinkWatch::View link = {};
    std::optional<JetsonFigures> device = {};  // nothing: the device is no Jetson
    Tracer::Counts traces = {};
    // Shares of the memory for keys and values in use, 0 to 1; nothing: this device has none.
    std::optional<double> draft_kv = {};
    std::optional<double> target_kv = {};
  };
  std::string render(const Now& now);

 private:
  struct Parts;
  Mutex mu_;
  std::unique_ptr<Parts> parts_ OUTRIDER_GUARDED_BY(mu_);
  bool counted_ OUTRIDER_GUARDED_BY(mu_) = false;
};

}  // namespace outrider
