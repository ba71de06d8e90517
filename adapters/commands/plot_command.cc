// outrider-train plot: a run's metrics as a picture. SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <memory>

#include "adapters/commands/commands.h"
#include "adapters/train/run_files.h"

namespace outrider {

void add_plot_command(CommandList& commands) {
  struct Flags {
    std::string metrics, title = "run", out;
  };
  const auto flags = std::make_shared<Flags>();
  const auto run = [flags]() -> Status {
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<StepMetrics> metrics, read_metrics(flags->metrics));
    std::ofstream out(flags->out, std::ios::binary);
    out << loss_plot_svg(metrics, flags->title);
    out.close();
    return out ? Status() : resource_exhausted("--out " + flags->out + ": cannot be written");
  };
  CLI::App* command = commands.add("plot", "Draw the losses of a run", run);
  command->add_option("--metrics", flags->metrics, "A run's metrics.jsonl")->required();
  command->add_option("--title", flags->title, "The picture's title");
  command->add_option("--out", flags->out, "The SVG to write")->required();
}

}  // namespace outrider
