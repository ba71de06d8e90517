// The devices and links of the FSD paper ("Fast and Cost-effective Speculative Edge-Cloud Decoding
// with Early Exits"), as tables: what outrider-bench emulates, and what the paper measured.
//
// T_p is one draft step, T_q one target pass, T_c the link one way. Table 4 counts 2 T_c per round,
// for the request and for its answer, so a round trip is 2 T_c.
//
// Times by rows follow the paper's table 9 (A100 for the target, Jetson for the draft),
// interpolated linearly; where the Jetson's time falls (at 3 and 4 rows) the larger one is used.
// Beyond the table's last point a draft step takes as long as for 32 rows. A target's pass of more
// than 64 rows is a prompt's prefill, which is in no figure of ours; its pace is that of γ+1 rows.
//
// Beside them stand edge devices of 2026 with the same target, and one that holds the target
// itself.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/enum_names.h"
#include "common/base/status.h"
#include "common/engine/model/emulated/pace.h"

namespace outrider {

// The source of the paper's target pass times.
enum class PassTimes {
  kMeasured,  // what its cloud decoding implies for one row (tables 5 and 6), times f(rows)/f(1)
  kPrinted,   // T_q for up to γ+1 rows, times f(rows)/f(γ+1) above; table 9's are printed by row
};

template <>
inline constexpr auto enum_names<PassTimes> = std::to_array<EnumName<PassTimes>>(
    {{PassTimes::kPrinted, "printed"}, {PassTimes::kMeasured, "measured"}});

// How to interpret the paper's T_c. On InfiniBand, where distance is negligible, it is 42 to 47 ms:
// the paper's own software and the bytes of whole probability vectors. The paper does not say which
// part of T_c is distance and which is software.
enum class PaceLink {
  kWhole,     // all of it is the link
  kDistance,  // without the part that the same target has on InfiniBand, which is software
};

template <>
inline constexpr auto enum_names<PaceLink> = std::to_array<EnumName<PaceLink>>(
    {{PaceLink::kWhole, "whole"}, {PaceLink::kDistance, "distance"}});

// The paper's results at a pace: averages of table 6, or those of table 8; none for table 9.
struct PaperResults {
  double ar_to_sd = 0;  // of table 6, the mean of its six rows
  double sd_to_fsd = 0;
  double tau = 0;        // tokens per round
  double miss_rate = 0;  // of verdicts whose round was not completely in the cache
  double mean_exit = 0;  // "Avg EE": the mean exit, one after each layer, that named the outcome
};

// The claims that apply to a pace.
enum class PaceGroup {
  kTables5And8,
  kTable9,
  kOf2026,   // table 9's target with an edge device of 2026
  kUnpaced,  // the models at their own speed on this machine
  kOther,    // a device with a link that is not in the paper
};

struct PaperPace {
  std::string name;
  double step_ms = 0;     // T_p
  double pass_ms = 0;     // T_q; for table 9 of one row
  double one_way_ms = 0;  // T_c
  PaceGroup group = PaceGroup::kOther;
  std::optional<PaperResults> paper;
  // Cloud decoding's time per token, which the paper does not print: the round of table 4 at its
  // own τ, times its speed-up from AR to SD. 0 without such results.
  double ar_ms = 0;
  PassTimes times = PassTimes::kMeasured;
  int target_layers = 32;  // of the paper's target, with an exit after each but the last
  double software_ms = 0;  // of T_c: software and bytes, without which kDistance counts
};

// Tables 5, 8 and 9, in this order (table 9 stands at three links), the devices of 2026, and
// "unpaced".
const std::vector<PaperPace>& paper_paces();

// Names; "all" is tables 5, 8 and 9, "table9" all of its links. INVALID_ARGUMENT lists the names.
Result<std::vector<PaperPace>> find_paces(const std::vector<std::string>& names);

// The step of a draft beside the target, on the target's device. It takes a sixteenth of a target
// pass of one row: the paper's 68M draft has 2 layers and its 7B target 32, and such a step also
// waits for kernels to start. Our choice; the paper does not say.
inline constexpr double kCloudDraftShare = 1.0 / 16;

// f of table 9: milliseconds of a pass with `rows` rows on the A100, and of a step on the Jetson.
double table9_pass_ms(double rows);
double table9_step_ms(double rows);

// The device in a pace's name, without its distance: "table9" in "table9-5ms" and
// "table9-5ms@20ms".
std::string device_of(std::string_view pace);

// The same device at another distance.
PaperPace at_distance(const PaperPace& pace, double one_way_ms);

// The same pace with this interpretation of T_c. With the distance alone the name says so, and it
// is no setting of the paper any more. Unchanged if T_c was not measured with the paper's software
// (table 9).
PaperPace with_link(const PaperPace& pace, PaceLink link);

// The same pace with these pass times; for printed ones the name says so.
PaperPace with_times(const PaperPace& pace, PassTimes times);

// An edge strong enough for the target, which speculates there alone: a Jetson AGX Thor, as NVIDIA
// publishes it (TensorRT Edge-LLM 0.4.0, 4-bit floats). A pass is Llama 3.1 8B's at batch 1 and 8;
// one of more rows takes no longer here, which favours it. A step is Qwen3 0.6B's.
PaceCurve strong_edge_pass();
PaceCurve strong_edge_step();

// γ is the paper's 4, with which it measured T_q, for any draft length of a run. Empty if unpaced.
PaceCurve pass_curve(const PaperPace& pace);
PaceCurve step_curve(const PaperPace& pace);

}  // namespace outrider
