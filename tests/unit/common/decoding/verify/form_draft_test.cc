// Drafts of the text that a form forces.
// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/server_drafts/form_draft.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <memory>

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr TokenId kPrompt = 90;

// A form by a table: what is forced behind an answer.
class TableForm final : public Constraint, public std::enable_shared_from_this<TableForm> {
 public:
  using Table = std::map<std::vector<TokenId>, std::vector<TokenId>>;
  explicit TableForm(Table table) : table_(std::move(table)) {}

  std::unique_ptr<ConstraintState> begin() const override {
    return std::make_unique<State>(table_);
  }
  std::size_t size_in_bytes() const override { return 0; }

 private:
  class State final : public ConstraintState {
   public:
    explicit State(const Table& table) : table_(table) {}
    void append(std::span<const TokenId> tokens) override {
      answer_.insert(answer_.end(), tokens.begin(), tokens.end());
    }
    std::shared_ptr<const AllowedTokens> allowed(std::span<const TokenId> /*path*/) override {
      return std::make_shared<const AllowedTokens>();
    }
    std::vector<TokenId> forced(std::span<const TokenId> path) override {
      std::vector<TokenId> text = answer_;
      text.insert(text.end(), path.begin(), path.end());
      const auto found = table_.find(text);
      return found == table_.end() ? std::vector<TokenId>() : found->second;
    }

   private:
    const Table& table_;
    std::vector<TokenId> answer_;
  };

  const Table table_;
};

class FormDraftTest : public testing::Test {
 protected:
  void begin(TableForm::Table table) {
    AnswerConstraint constraint{.spec = {ConstraintKind::kRegex, "any"},
                                .compiled = std::make_shared<TableForm>(std::move(table))};
    ChoiceSettings settings;
    settings.constraint = std::move(constraint);
    form_ = RowAdjuster(std::move(settings), 1, {});
    form_.append(tree_.text());
  }
  void grow(std::size_t nodes = 32, double least_chance = 0.01,
            Position last_position = std::numeric_limits<Position>::max()) {
    draft_.grow(tree_, form_, {.nodes = nodes, .last_position = last_position}, least_chance);
  }
  void commit(std::vector<TokenId> tokens) {
    tree_.commit(tokens);
    form_.append(tokens);
  }
  // The tokens of the first chain behind a node.
  std::vector<TokenId> chain(NodeIndex at = kRoot) const {
    std::vector<TokenId> tokens;
    while (!tree_.children(at).empty()) {
      at = tree_.children(at).front();
      tokens.push_back(tree_.node(at).token);
    }
    return tokens;
  }

  MirroredTree tree_{{kPrompt}};
  RowAdjuster form_;
  FormDraft draft_;
};

TEST_F(FormDraftTest, DraftsWhatIsForced) {
  begin({{{}, {1, 2, 3}}});
  grow();
  EXPECT_THAT(chain(), ElementsAre(1, 2, 3));
  EXPECT_EQ(tree_.node(tree_.child(kRoot, 1)).id, 0) << "a node of this side's own";
}

TEST_F(FormDraftTest, DraftsNothingWhereThereIsAChoice) {
  begin({{{7}, {1}}});
  grow();
  EXPECT_THAT(chain(), IsEmpty());
}

TEST_F(FormDraftTest, GoesOnBehindWhatTheEdgeSent) {
  begin({{{7}, {1, 2}}, {{8}, {3}}});
  ASSERT_TRUE(tree_
                  .receive({tree_.ids().next_id(), tree_.end(), {{7, 0, 255}, {8, 0, 100}}},
                           {.vocab_size = 100, .max_nodes = 64})
                  .ok());
  grow();
  EXPECT_THAT(chain(tree_.child(kRoot, 7)), ElementsAre(1, 2));
  EXPECT_THAT(chain(tree_.child(kRoot, 8)), ElementsAre(3));
}

TEST_F(FormDraftTest, KeepsToItsBounds) {
  begin({{{}, {1, 2, 3, 4}}});
  grow(2);
  EXPECT_THAT(chain(), ElementsAre(1, 2));
  tree_.remove_all_unsent();
  FormDraft().grow(tree_, form_, {.nodes = 32, .last_position = 3}, 0.01);
  EXPECT_THAT(chain(), ElementsAre(1, 2, 3));
  tree_.remove_all_unsent();
  FormDraft().grow(tree_, form_, {.nodes = 32, .last_position = 100}, 0.92);
  EXPECT_THAT(chain(), ElementsAre(1)) << "what is less sure is not worth its row";
}

TEST_F(FormDraftTest, LearnsThatAModelSpellsOtherwise) {
  TableForm::Table table;
  std::vector<TokenId> answer;
  for (int i = 0; i < 24; ++i) {
    table[answer] = {1, 2, 3};
    answer.push_back(9);
  }
  begin(table);
  grow(32, 0.5);
  EXPECT_THAT(chain(), ElementsAre(1, 2, 3));
  for (int i = 0; i < 23; ++i) {
    commit({9});
    grow(32, 0.5);
  }
  EXPECT_THAT(chain(), IsEmpty());
}

}  // namespace
}  // namespace outrider
