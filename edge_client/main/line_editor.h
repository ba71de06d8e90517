// Lines that a person writes at a terminal: arrow keys edit them and bring earlier ones back (of
// this process only: what was asked is kept nowhere else). UTF-8, whatever the locale.
//
//   const std::unique_ptr<LineEditor> editor = LineEditor::create("> ", stdin, stderr);
//   while (std::optional<std::string> line = editor->read_line()) answer(*line);
//
// Several lines that are pasted are one line of the editor, with newlines in it, as far as the
// terminal marks pastes (bracketed paste). A line of the log that comes meanwhile stands above the
// edited line, which is drawn again.
//
// Thread rule: one thread; stop() from any. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <histedit.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/base/mutex.h"
#include "common/base/posix.h"

namespace outrider {

class LineEditor final {
 public:
  // Null if one of the two is no terminal. prompt: ASCII.
  static std::unique_ptr<LineEditor> create(std::string prompt, std::FILE* in, std::FILE* out);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // Nothing: Ctrl-D, or stop(). Leaves the cursor at the begin of a line.
  std::optional<std::string> read_line();
  // The line that is read, or the next, is nothing.
  void stop();

 private:
  LineEditor(std::string prompt, std::FILE* in, std::FILE* out);

  static char* prompt_of(EditLine* edit);
  // libedit calls it within read_line(), which holds the lock.
  static int read_key_of(EditLine* edit, wchar_t* key)
      OUTRIDER_THREAD_ANNOTATION(no_thread_safety_analysis);
  static unsigned char insert_paste_of(EditLine* edit, int key)
      OUTRIDER_THREAD_ANNOTATION(no_thread_safety_analysis);
  int read_key(wchar_t* key) OUTRIDER_REQUIRES(mu_);
  bool read_keys() OUTRIDER_REQUIRES(mu_);
  bool read_sequence(std::wstring& sequence) OUTRIDER_REQUIRES(mu_);
  bool read_paste() OUTRIDER_REQUIRES(mu_);
  bool read_letter(wchar_t& letter) OUTRIDER_REQUIRES(mu_);
  unsigned char insert_paste() OUTRIDER_REQUIRES(mu_);
  bool wait_for_key() const;
  void frame(const std::function<void()>& write_log_line);
  std::string lift() OUTRIDER_REQUIRES(mu_);

  std::string prompt_;
  std::FILE* const in_;
  std::FILE* const out_;
  const UniqueFd stopped_;
  History* const history_;
  EditLine* const edit_;

  Mutex mu_;  // the terminal and what libedit knows of it; free while a key is awaited
  bool reading_ OUTRIDER_GUARDED_BY(mu_) = false;
  std::wstring keys_ OUTRIDER_GUARDED_BY(mu_);    // read, and not yet given to libedit
  std::wstring pasted_ OUTRIDER_GUARDED_BY(mu_);  // not yet in the line
};

}  // namespace outrider
