// What the user sees: the answer on stdout as it is committed, everything else on stderr.
//
// Colours and the progress line appear on terminals only, and never with NO_COLOR. On a terminal,
// control characters in the answer, those of text direction included, are left out: a model's text
// must not steer it.
//
// Thread rule: the thread of Runner::run(). SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "edge_client/main/provisional_line.h"
#include "edge_client/shell/runner.h"

namespace outrider {

class Console final : public AnswerListener {
 public:
  struct Options {
    bool color_accept = false;
    bool show_provisional = false;         // unverified text, dimmed, until it is verified or wrong
    std::function<void()> on_broken_pipe;  // stdout's reader went away; called once
  };

  explicit Console(Options options);

  void on_emit(const Emit& emit) override;
  void on_say(const Say& say) override;
  void on_provisional(const Provisional& guess) override;
  void on_prefill(const PrefillProgress& progress) override;

  // Ends the answer's line on stdout if it is not ended.
  void end_line();
  // A block for the user.
  void print_error_stream(std::string_view text);
  // One line on stdout (the JSON of --json, a prompt of the chat).
  void print_line(std::string_view text);

  bool broken() const { return broken_; }

 private:
  void write_out(std::string_view text);
  void clear_progress();
  void take_back_provisional();

  const Options options_;
  const bool out_is_terminal_;
  const bool error_is_terminal_;
  const bool colors_;
  const bool provisional_;
  ProvisionalLine provisional_line_;
  bool progress_shown_ = false;
  bool line_open_ = false;
  bool broken_ = false;
};

// Without control characters but line feed and tab. text: whole characters.
std::string without_controls(std::string_view text);

}  // namespace outrider
