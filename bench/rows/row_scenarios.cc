// SPDX-License-Identifier: Apache-2.0
#include "bench/rows/row_scenarios.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <numeric>
#include <utility>

#include "emulation/random/random.h"

namespace outrider {

std::uint64_t hash_logits(std::span<const float> logits) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const float value : logits) {
    hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001b3;
  }
  return hash;
}

void RowBook::record(const std::string& row, const std::string& way, std::uint64_t hash) {
  const auto [entry, is_new] = hashes_.try_emplace(row, hash);
  if (is_new) return;
  ++compared_;
  if (entry->second == hash) return;
  ++mismatches_;
  if (mismatched_.size() < 10) mismatched_.push_back(row + ", " + way);
}

namespace {

int below(SplitMix& random, int bound) {
  return static_cast<int>(random.below(static_cast<std::uint64_t>(bound)));
}

constexpr int kTreeSizes[] = {2, 3, 5, 8, 13, 21, 33};
constexpr int kPromptLengths[] = {3, 17, 64, 70, 128, 131, 150};

// One case in one cache that is being filled.
class Sequence {
 public:
  // Its pages are in random order if `shuffle`.
  static Result<Sequence> make(Model& model, const RowCase& row_case, bool shuffle) {
    const auto rows = static_cast<int>(row_case.prompt.size() + row_case.tokens.size());
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<KvCache> cache, model.new_cache(2 * rows));
    Sequence sequence(row_case, std::move(cache));
    if (shuffle) OUTRIDER_RETURN_IF_ERROR(sequence.shuffle());
    return sequence;
  }

  const RowCase& row_case() const { return *case_; }
  KvSlots& slots() { return cache_->slots(); }
  Position prompt_left() const {
    return static_cast<Position>(case_->prompt.size()) - slots_committed() - pending_prompt_;
  }
  Slot slot_of(int node) const { return slots_[static_cast<std::size_t>(node)]; }

  // The prompt's next tokens as rows, at most `count`.
  Status add_prompt(Position count, std::vector<Row>& rows, std::vector<std::string>& names) {
    Slot parent = kRootSlot;
    for (count = std::min(count, prompt_left()); count > 0; --count) {
      const Position at = slots_committed() + pending_prompt_;
      OUTRIDER_ASSIGN_OR_RETURN(parent, slots().append(parent));
      rows.push_back({cache_.get(), parent, case_->prompt[static_cast<std::size_t>(at)], true});
      names.push_back(std::to_string(case_->number) + "/prompt " + std::to_string(at));
      ++pending_prompt_;
    }
    last_prompt_slot_ = parent;
    return {};
  }

  // Commits the prompt rows of the last add_prompt().
  void commit_prompt() {
    slots().commit(last_prompt_slot_);
    pending_prompt_ = 0;
  }

  // Commits the path to a node that was computed.
  void commit_node(int node) {
    slots().commit(slot_of(node));
    slots_[static_cast<std::size_t>(node)] = kRootSlot;
  }

  // A node whose parent has a slot, or is the last that was committed.
  Status add_node(int node, std::vector<Row>& rows, std::vector<std::string>& names) {
    const int parent = case_->parents[static_cast<std::size_t>(node)];
    const Slot under = parent < 0 ? kRootSlot : slot_of(parent);
    OUTRIDER_ASSIGN_OR_RETURN(const Slot slot, slots().append(under));
    slots_[static_cast<std::size_t>(node)] = slot;
    rows.push_back({cache_.get(), slot, case_->tokens[static_cast<std::size_t>(node)], true});
    names.push_back(std::to_string(case_->number) + "/node " + std::to_string(node));
    return {};
  }

 private:
  Sequence(const RowCase& row_case, std::unique_ptr<KvCache> cache)
      : case_(&row_case), cache_(std::move(cache)), slots_(row_case.tokens.size(), kRootSlot) {}

  Position slots_committed() const { return cache_->slots().committed(); }

  // Takes all pages and returns them in a random order.
  Status shuffle() {
    SplitMix random(static_cast<std::uint64_t>(case_->number) + 77);
    KvPages& pages = cache_->pages();
    std::vector<KvPage> taken(static_cast<std::size_t>(pages.free()));
    for (KvPage& page : taken) {
      OUTRIDER_ASSIGN_OR_RETURN(page, pages.take(0));
    }
    random.shuffle(taken);
    for (const KvPage page : taken) pages.give_back(page);
    return {};
  }

  const RowCase* case_;
  std::unique_ptr<KvCache> cache_;
  std::vector<Slot> slots_;  // by node
  Slot last_prompt_slot_ = kRootSlot;
  Position pending_prompt_ = 0;
};

// Runs passes and records their rows.
class Recorder {
 public:
  Recorder(Model& model, std::string way, RowBook& book)
      : model_(model), way_(std::move(way)), book_(book) {}

  std::vector<Row>& rows() { return rows_; }
  std::vector<std::string>& names() { return names_; }

  Status pass() {
    OUTRIDER_RETURN_IF_ERROR(model_.forward(rows_, out_));
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      book_.record(names_[i], way_, hash_logits(out_.row(i)));
    }
    rows_.clear();
    names_.clear();
    return {};
  }

  Status prefill(Sequence& sequence, Position chunk) {
    while (sequence.prompt_left() > 0) {
      OUTRIDER_RETURN_IF_ERROR(sequence.add_prompt(chunk, rows_, names_));
      OUTRIDER_RETURN_IF_ERROR(pass());
      sequence.commit_prompt();
    }
    return {};
  }

 private:
  Model& model_;
  std::string way_;
  RowBook& book_;
  std::vector<Row> rows_;
  std::vector<std::string> names_;
  PassOutput out_;
};

Position prompt_length(const RowCase& row_case) {
  return static_cast<Position>(row_case.prompt.size());
}

std::vector<int> all_nodes(const RowCase& row_case) {
  std::vector<int> nodes(row_case.tokens.size());
  std::iota(nodes.begin(), nodes.end(), 0);
  return nodes;
}

// A random order in which parents come before their children.
std::vector<int> random_order(const RowCase& row_case) {
  SplitMix random(static_cast<std::uint64_t>(row_case.number) + 991);
  std::vector<int> order;
  std::vector<int> ready;
  const auto add_children = [&](int parent) {
    for (std::size_t i = 0; i < row_case.parents.size(); ++i) {
      if (row_case.parents[i] == parent) ready.push_back(static_cast<int>(i));
    }
  };
  for (add_children(-1); !ready.empty();) {
    const auto pick = ready.begin() + below(random, static_cast<int>(ready.size()));
    order.push_back(*pick);
    ready.erase(pick);
    add_children(order.back());
  }
  return order;
}

Status run_alone(Model& model, const RowCase& row_case, Recorder recorder) {
  OUTRIDER_ASSIGN_OR_RETURN(Sequence sequence, Sequence::make(model, row_case, false));
  OUTRIDER_RETURN_IF_ERROR(recorder.prefill(sequence, 1));
  for (const int node : all_nodes(row_case)) {
    OUTRIDER_RETURN_IF_ERROR(sequence.add_node(node, recorder.rows(), recorder.names()));
    OUTRIDER_RETURN_IF_ERROR(recorder.pass());
  }
  return {};
}

Status run_chunked(Model& model, const RowCase& row_case, Position chunk, Recorder recorder) {
  OUTRIDER_ASSIGN_OR_RETURN(Sequence sequence, Sequence::make(model, row_case, false));
  OUTRIDER_RETURN_IF_ERROR(recorder.prefill(sequence, chunk));
  for (const int node : all_nodes(row_case)) {
    OUTRIDER_RETURN_IF_ERROR(sequence.add_node(node, recorder.rows(), recorder.names()));
  }
  return recorder.pass();
}

// Pages in random order, rows in random order, the tree in two passes.
Status run_shuffled(Model& model, const RowCase& row_case, Recorder recorder) {
  OUTRIDER_ASSIGN_OR_RETURN(Sequence sequence, Sequence::make(model, row_case, true));
  OUTRIDER_RETURN_IF_ERROR(recorder.prefill(sequence, 23));
  const std::vector<int> order = random_order(row_case);
  for (std::size_t i = 0; i < order.size(); ++i) {
    OUTRIDER_RETURN_IF_ERROR(sequence.add_node(order[i], recorder.rows(), recorder.names()));
    if (i + 1 == order.size() / 2) OUTRIDER_RETURN_IF_ERROR(recorder.pass());
  }
  return recorder.pass();
}

// The rows of two sequences in turn, with prompts of one beside the tree of the other.
Status run_beside(Model& model, const RowCase& row_case, Recorder recorder) {
  const RowCase other_case = make_row_case((row_case.number + 5) % kNumRowCases,
                                           model.info().vocab_size, row_case.context);
  OUTRIDER_ASSIGN_OR_RETURN(Sequence one, Sequence::make(model, row_case, true));
  OUTRIDER_ASSIGN_OR_RETURN(Sequence other, Sequence::make(model, other_case, false));
  OUTRIDER_RETURN_IF_ERROR(recorder.prefill(one, 64));
  const std::vector<int> order = random_order(row_case);
  for (std::size_t i = 0; i < order.size(); ++i) {
    OUTRIDER_RETURN_IF_ERROR(one.add_node(order[i], recorder.rows(), recorder.names()));
    if (other.prompt_left() == 0) continue;
    OUTRIDER_RETURN_IF_ERROR(other.add_prompt(5, recorder.rows(), recorder.names()));
    OUTRIDER_RETURN_IF_ERROR(recorder.pass());
    other.commit_prompt();
  }
  if (!recorder.rows().empty()) OUTRIDER_RETURN_IF_ERROR(recorder.pass());
  OUTRIDER_RETURN_IF_ERROR(recorder.prefill(other, prompt_length(other_case)));
  for (const int node : all_nodes(other_case)) {
    OUTRIDER_RETURN_IF_ERROR(other.add_node(node, recorder.rows(), recorder.names()));
  }
  return recorder.pass();
}

// The last node is added after its ancestors were committed and the rest of the tree was dropped.
Status run_committed(Model& model, const RowCase& row_case, Recorder recorder) {
  OUTRIDER_ASSIGN_OR_RETURN(Sequence sequence, Sequence::make(model, row_case, true));
  OUTRIDER_RETURN_IF_ERROR(recorder.prefill(sequence, 64));
  const int last = static_cast<int>(row_case.tokens.size()) - 1;
  for (int node = 0; node < last; ++node) {
    OUTRIDER_RETURN_IF_ERROR(sequence.add_node(node, recorder.rows(), recorder.names()));
  }
  OUTRIDER_RETURN_IF_ERROR(recorder.pass());
  const int parent = row_case.parents.back();
  if (parent < 0) {
    sequence.slots().release_all_uncommitted();
  } else {
    sequence.commit_node(parent);
  }
  OUTRIDER_RETURN_IF_ERROR(sequence.add_node(last, recorder.rows(), recorder.names()));
  return recorder.pass();
}

}  // namespace

RowCase make_row_case(int number, std::int32_t vocab_size, Position context) {
  SplitMix random(static_cast<std::uint64_t>(number) * 1000003 + 5);
  RowCase made;
  made.number = number;
  made.context = context;
  made.prompt.resize(static_cast<std::size_t>(context + kPromptLengths[number / 2 % 7]));
  for (TokenId& token : made.prompt) token = below(random, vocab_size);
  const int nodes = kTreeSizes[number / 2 % 7];
  for (int i = 0; i < nodes; ++i) {
    const bool chain = number % 2 == 0;
    made.parents.push_back(chain ? i - 1 : below(random, i + 1) - 1);
    made.tokens.push_back(below(random, vocab_size));
  }
  return made;
}

Status run_row_case(Model& model, const RowCase& row_case, const std::string& label,
                    RowBook& book) {
  const auto recorder = [&](const std::string& way) {
    return Recorder(model, label + " " + way, book);
  };
  OUTRIDER_RETURN_IF_ERROR(run_alone(model, row_case, recorder("alone")));
  OUTRIDER_RETURN_IF_ERROR(run_chunked(model, row_case, 7, recorder("chunks of 7")));
  OUTRIDER_RETURN_IF_ERROR(run_chunked(model, row_case, 64, recorder("chunks of 64")));
  OUTRIDER_RETURN_IF_ERROR(
      run_chunked(model, row_case, prompt_length(row_case), recorder("whole")));
  OUTRIDER_RETURN_IF_ERROR(run_shuffled(model, row_case, recorder("shuffled")));
  OUTRIDER_RETURN_IF_ERROR(run_beside(model, row_case, recorder("beside another")));
  return run_committed(model, row_case, recorder("after commits"));
}

Status run_row_case_once(Model& model, const RowCase& row_case, const std::string& label,
                         RowBook& book) {
  return run_chunked(model, row_case, prompt_length(row_case),
                     Recorder(model, label + " whole", book));
}

}  // namespace outrider
