// Executes passes on a model: slots for the rows of all who ride, the forward pass, the logits to
// choose from, and what stays in the KV caches afterwards.
//
//   (place compute (demand* end_demands)? logits* keep*)*
//
// Thread rule: the compute thread. Ownership: model and caches are the caller's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/decoding/verify/scheduling/scheduler_types.h"
#include "common/decoding/verify/session/pass_plan.h"
#include "common/engine/model/model.h"

namespace outrider {

class VerifySession;

// One stream's part of a pass: a range of its rows, and how they ended. A rider that fails leaves
// its pass without hurting the others.
struct Rider {
  StreamId stream = 0;
  PassPlan plan;
  KvCache* cache = nullptr;
  // Told after each layer how many are done; empty: nobody is.
  std::function<void(std::int32_t done, std::int32_t layers)> on_layer_done = {};
  // Set by another thread when nobody wants its rows any more; null: never.
  const std::atomic<bool>* abandoned = nullptr;
  // How tokens behind its rows are chosen, for models that choose themselves; null: here.
  const TokenChoice* choice = nullptr;
  // The logits are wanted where the token behind a row has a digest (row_digest.h).
  bool digests = false;

  // Set by the runner.
  Status status = {};
  std::size_t rows = 0;       // that the pass computes for it: plan.rows(), or none if it failed
  std::size_t first_row = 0;  // of those, in the pass
  // Among the rows that want logits, the first behind which a token is chosen. The rows that the
  // plan scores come right before it.
  std::size_t first_logits = 0;
};

// The observers of the rows of a pass while it runs; null means none.
struct PassWatch {
  LayerTap* tap = nullptr;
  RowPruner* pruner = nullptr;
};

class PassRunner final {
 public:
  // on_demand: a model may compute logits as they are asked for.
  explicit PassRunner(Model& model, bool on_demand = false)
      : model_(model), on_demand_(on_demand) {}

  // Gives all riders their rows and slots. One that fails is none of the pass: its cache holds what
  // it held before.
  void place(std::span<Rider> riders);
  // Runs the rows of the riders that place() took in. The cache of one whose status is an error
  // holds what it held before. CANCELLED: it was abandoned; that ends the pass early only if all
  // were. DATA_LOSS: nothing can be chosen from one of its rows.
  void compute(std::span<Rider> riders, const PassWatch& watch = {});
  // The model's, idle until the next pass; null: it has none.
  ThreadPool* threads() const { return output_.threads; }

  // Whether logits() needs demand() first, after this pass.
  bool demands() const { return output_.row_logits != nullptr; }
  // Computes the logits of rows, in Chooser's numbering. Errors: as compute().
  Status demand(const Rider& rider, std::span<const std::size_t> rows);
  // Nobody wants more; those that were demanded stay.
  void end_demands() { output_.row_logits->end(); }

  // False if the row was ended in the middle of the pass. In Chooser's numbering.
  bool has_logits(const Rider& rider, std::size_t row) const {
    return output_.has_row(rider.first_logits + row);
  }
  // The token behind a row that the model chose; nothing if it is to be chosen from logits().
  std::optional<TokenId> chosen(const Rider& rider, std::size_t row) const {
    const TokenId token = output_.chosen_of(rider.first_logits + row);
    return token == PassOutput::kNotChosen ? std::nullopt : std::optional(token);
  }
  // [vocab] f32, of a row in Chooser's numbering; only of a plan that decides.
  std::span<const float> logits(const Rider& rider, std::size_t row) const {
    return output_.row(rider.first_logits + row);
  }
  // The same, of a row that the plan scores, by its index among them.
  std::span<const float> scored_logits(const Rider& rider, std::size_t index) const {
    return output_.row(rider.first_logits - rider.plan.scored_rows() + index);
  }

  // Commits the plan's tokens and the path to node `leaf` (-1: no node); frees all other rows.
  void keep(const Rider& rider, std::int32_t leaf);

 private:
  Status append_rows(const Rider& rider);
  void listen_to(std::span<const Rider> riders);
  Status result_of(const Rider& rider, const Status& pass) const;
  Status check_logits(const Rider& rider) const;
  // Among the rows of the pass, the one of this number in Chooser's numbering.
  static std::size_t row_of(const Rider& rider, std::size_t row) {
    return rider.first_row + rider.plan.tokens.size() - 1 + row;
  }

  Model& model_;
  const bool on_demand_;
  std::vector<Row> rows_;                            // by rider: tokens, then nodes
  std::vector<const std::atomic<bool>*> abandoned_;  // of the riders of the pass
  PassOutput output_;
};

// The choices of the law along the nodes of a rider's pass: the walk of its verdict, before
// anything is committed. It changes nothing but itself, so those of several riders may be taken
// side by side.
//
//   (clear score? (run | run_on_demand)? chosen*)*
class ChosenWalk final {
 public:
  void clear() {
    chosen_.clear();
    readings_ = {};
  }
  bool is_done() const { return !chosen_.empty(); }

  // The log-probabilities of the text's tokens behind the rows that the plan scores, by the model's
  // threads.
  void score(const Rider& rider, const VerifySession& session, const PassRunner& runner);
  // rider: the session's, whose rows `runner` has computed, with their logits. FAILED_PRECONDITION:
  // the answer's settings forbid every token.
  Status run(const Rider& rider, const VerifySession& session, const PassRunner& runner);
  // The same where `runner` demands(): of the row that the walk stands at, together with rows below
  // it that it will likely come to. A few rows take little longer than one, as the output matrix is
  // read once for them. Errors: of their logits, and as run().
  Status run_on_demand(const Rider& rider, const VerifySession& session, PassRunner& runner);

  // The token chosen behind this row, in Chooser's numbering; nothing where the walk did not come.
  std::optional<TokenId> chosen(std::size_t row) const { return chosen_.at(row); }
  // In order; empty unless the session asked.
  PassReadings take_readings() { return std::exchange(readings_, {}); }

 private:
  Result<TokenId> choose_from(std::span<const float> logits, const Rider& rider,
                              const VerifySession& session, std::size_t row);

  std::vector<std::optional<TokenId>> chosen_;  // by row
  PassReadings readings_;
  std::vector<float> adjusted_;  // reused from row to row
};

// Rows to compute for a walk that stands at `row`, in Chooser's numbering: itself, then the
// likeliest below it that are not `there` yet. ended: of a node, as PassPlan::NodeRow says.
std::vector<std::size_t> rows_ahead(const PassPlan& plan, std::size_t row,
                                    const std::vector<bool>& there);

}  // namespace outrider
