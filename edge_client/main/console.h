// The user's view: the answer on stdout as it is committed, everything else on stderr.
//
// Colours and the progress line appear on terminals only, and never with NO_COLOR. On a terminal,
// control characters in the answer, those of text direction included, are left out: a model's text
// must not steer it. Where the log goes to the same terminal, a line of it stands above the
// answer's line, which is drawn again below.
//
// Thread rule: the thread of Runner::run(); lines of the log come from any. One at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "edge_client/main/answer_line.h"
#include "edge_client/shell/runner.h"

namespace outrider {

class Console final : public AnswerListener {
 public:
  struct Options {
    bool color_accept = false;
    bool show_provisional = false;         // unverified text, dimmed, until it is verified or wrong
    std::function<void()> on_broken_pipe;  // stdout takes no more; called once
  };

  explicit Console(Options options);
  ~Console() override;
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

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

  // OK, or why stdout takes no more: its reader went away, its disk is full.
  const Status& output() const { return output_; }

 private:
  void frame(const std::function<void()>& write_log_line);
  void close_line() OUTRIDER_REQUIRES(mu_);
  void write_out(std::string_view text);
  void clear_progress() OUTRIDER_REQUIRES(mu_);

  const Options options_;
  const bool out_is_terminal_;
  const bool error_is_terminal_;
  const bool one_terminal_;  // both
  const bool colors_;
  const bool provisional_;
  Status output_;

  Mutex mu_;  // the answer's line against lines of the log
  AnswerLine line_ OUTRIDER_GUARDED_BY(mu_);
  bool progress_shown_ OUTRIDER_GUARDED_BY(mu_) = false;
  bool line_open_ OUTRIDER_GUARDED_BY(mu_) = false;
};

// Without control characters but line feed and tab. text: whole characters.
std::string without_controls(std::string_view text);

}  // namespace outrider
