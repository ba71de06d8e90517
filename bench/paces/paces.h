// The devices and links of the FSD paper ("Fast and Cost-effective Speculative Edge-Cloud Decoding
// with Early Exits"), as tables: what outrider-bench emulates, and what the paper measured there.
//
// T_p is one draft step, T_q one target pass, T_c the link one way: table 4 pays 2 T_c in a round,
// one for the request and one for its answer, so a round trip is 2 T_c.
//
// How times grow with rows is the paper's table 9 (A100 for the target, Jetson for the draft), with
// straight lines between its points; the Jetson's two falls (at 3 and 4 rows) are levelled up.
// Beyond its last point the table says nothing. The draft then takes what 32 rows take. A target's
// pass of more than 64 rows is a prompt's prefill, which no figure of ours includes: it is paced as
// a pass of γ+1 rows.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/enum_names.h"
#include "common/base/status.h"
#include "common/model/emulated/pace.h"

namespace outrider {

// What the paper's target pass takes.
enum class PassTimes {
  kMeasured,  // what its cloud decoding implies for one row (tables 5 and 6), times f(rows)/f(1)
  kPrinted,   // T_q for up to γ+1 rows, times f(rows)/f(γ+1) above; table 9's are printed by row
};

template <>
inline constexpr auto enum_names<PassTimes> = std::to_array<EnumName<PassTimes>>(
    {{PassTimes::kPrinted, "printed"}, {PassTimes::kMeasured, "measured"}});

// How the paper's T_c is read. On InfiniBand, where nothing is far, it is 42 to 47 ms: the paper's
// own software, and the bytes of whole probability vectors. Which of it belongs to a place and not
// to a program, the paper does not say.
enum class PaceLink {
  kWhole,     // all of it is the link's
  kDistance,  // the part that the same target has on InfiniBand too is software, and left out
};

template <>
inline constexpr auto enum_names<PaceLink> = std::to_array<EnumName<PaceLink>>(
    {{PaceLink::kWhole, "whole"}, {PaceLink::kDistance, "distance"}});

// The paper's results at a pace, averages of table 6 or those of table 8; none for table 9.
struct PaperResults {
  double ar_to_sd = 0;  // of table 6, the mean of its six rows
  double sd_to_fsd = 0;
  double tau = 0;        // tokens per round
  double miss_rate = 0;  // of verdicts whose round was not in the cache, whole
  double mean_exit = 0;  // "Avg EE": the mean exit, one after each layer, that named the outcome
};

// Which claims a pace can be held to.
enum class PaceGroup {
  kTables5And8,
  kTable9,
  kUnpaced,  // the models at their own speed on this machine
  kOther,    // a device at a link that the paper has not
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
  double software_ms = 0;  // of T_c: software and bytes by PaceLink::kDistance
};

// Tables 5, 8 and 9, in this order (table 9 stands at three links), and "unpaced".
const std::vector<PaperPace>& paper_paces();

// Names; "all" is tables 5, 8 and 9, "table9" all of its links. INVALID_ARGUMENT lists the names.
Result<std::vector<PaperPace>> find_paces(const std::vector<std::string>& names);

// A step of a draft beside the target, on the target's device: a sixteenth of its pass of one row,
// as the paper's draft of 68M has 2 layers where its target of 7B has 32, and such a step waits for
// its kernels to start. Chosen; the paper does not say.
inline constexpr double kCloudDraftShare = 1.0 / 16;

// f of table 9: milliseconds of a pass with `rows` rows on the A100, and of a step on the Jetson.
double table9_pass_ms(double rows);
double table9_step_ms(double rows);

// The device of a pace's name, without its distance: "table9" of "table9-5ms" and
// "table9-5ms@20ms".
std::string device_of(std::string_view pace);

// The same device at another distance.
PaperPace at_distance(const PaperPace& pace, double one_way_ms);

// The same pace with its link read so; one of distance alone is named so, and is no place of the
// paper's any more. As it is where T_c was not measured with the paper's software (table 9).
PaperPace with_link(const PaperPace& pace, PaceLink link);

// The same pace with these pass times; printed ones are named so.
PaperPace with_times(const PaperPace& pace, PassTimes times);

// γ is the paper's 4, with which it measured T_q, whatever the draft length of a run. Empty if
// unpaced.
PaceCurve pass_curve(const PaperPace& pace);
PaceCurve step_curve(const PaperPace& pace);

}  // namespace outrider
