// SPDX-License-Identifier: Apache-2.0
#include "edge_client/main/line_editor.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <clocale>
#include <cstdlib>
#include <cwchar>
#include <string_view>
#include <utility>

#include "common/telemetry/log.h"

namespace outrider {
namespace {

constexpr int kRememberedLines = 1000;

// Cells that the text takes; text: a line as it is edited.
int cells(std::string_view text) {
  std::wstring wide(text.size(), L'\0');
  const std::size_t length = std::mbstowcs(wide.data(), std::string(text).c_str(), wide.size());
  if (length == static_cast<std::size_t>(-1)) return 0;
  return std::max(0, ::wcswidth(wide.data(), length));
}

LineEditor* editor_of(EditLine* edit) {
  LineEditor* self = nullptr;
  ::el_get(edit, EL_CLIENTDATA, &self);
  return self;
}

}  // namespace

std::unique_ptr<LineEditor> LineEditor::create(std::string prompt, std::FILE* in, std::FILE* out) {
  if (::isatty(fileno(in)) != 1 || ::isatty(fileno(out)) != 1) return nullptr;
  return std::unique_ptr<LineEditor>(new LineEditor(std::move(prompt), in, out));
}

LineEditor::LineEditor(std::string prompt, std::FILE* in, std::FILE* out)
    : prompt_(std::move(prompt)),
      in_(in),
      out_(out),
      stopped_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      history_(::history_init()),
      edit_([&] {
        std::setlocale(LC_CTYPE, "C.UTF-8");  // what libedit takes for letters
        return ::el_init("outrider-edge", in, out, out);
      }()) {
  HistEvent event{};
  ::history(history_, &event, H_SETSIZE, kRememberedLines);
  ::history(history_, &event, H_SETUNIQUE, 1);
  ::el_set(edit_, EL_CLIENTDATA, this);
  ::el_set(edit_, EL_PROMPT, &LineEditor::prompt_of);
  ::el_set(edit_, EL_EDITOR, "emacs");
  ::el_set(edit_, EL_HIST, ::history, history_);
  ::el_set(edit_, EL_GETCFN, &LineEditor::read_key_of);
  ::el_set(edit_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  ::el_set(edit_, EL_BIND, "\\e[1;5D", "ed-prev-word", nullptr);
  ::el_set(edit_, EL_BIND, "\\e[1;5C", "em-next-word", nullptr);
}

LineEditor::~LineEditor() {
  ::el_end(edit_);
  ::history_end(history_);
}

std::optional<std::string> LineEditor::read_line() {
  LogFrame before = set_log_frame([this](const auto& write) { frame(write); });
  std::optional<std::string> line;
  {
    const MutexLock lock(mu_);
    ::el_resize(edit_);
    ::el_set(edit_, EL_PREP_TERM, 1);  // before the prompt: who sees it may type
    reading_ = true;
    int length = 0;
    const char* const text = ::el_gets(edit_, &length);
    reading_ = false;
    ::el_set(edit_, EL_PREP_TERM, 0);
    if (text != nullptr && length > 0) line.emplace(text, static_cast<std::size_t>(length));
    if (!line) std::fputs("\n", out_);
    std::fflush(out_);
  }
  set_log_frame(std::move(before));
  if (!line) return line;
  while (line->ends_with('\n') || line->ends_with('\r')) line->pop_back();
  HistEvent event{};
  if (!line->empty()) ::history(history_, &event, H_ENTER, line->c_str());
  return line;
}

void LineEditor::stop() {
  ::eventfd_write(stopped_.get(), 1);
}

char* LineEditor::prompt_of(EditLine* edit) {
  return editor_of(edit)->prompt_.data();
}

int LineEditor::read_key_of(EditLine* edit, wchar_t* key) {
  return editor_of(edit)->read_key(key);
}

bool LineEditor::wait_for_key() const {
  std::array<pollfd, 2> files = {
      pollfd{.fd = fileno(in_), .events = POLLIN, .revents = 0},
      pollfd{.fd = stopped_.get(), .events = POLLIN, .revents = 0},
  };
  while (::poll(files.data(), files.size(), -1) < 0) {
    if (errno != EINTR) return false;
  }
  return files[1].revents == 0;
}

// 1, or 0 at the end, as libedit wants it. Bytes that are no UTF-8 are passed over.
int LineEditor::read_key(wchar_t* key) {
  std::mbstate_t state{};
  while (true) {
    mu_.unlock();
    const bool there = wait_for_key();
    mu_.lock();
    char byte = 0;
    if (!there || ::read(fileno(in_), &byte, 1) != 1) return 0;
    const std::size_t read = std::mbrtowc(key, &byte, 1, &state);
    if (read == static_cast<std::size_t>(-1)) {
      state = {};
    } else if (read != static_cast<std::size_t>(-2)) {
      return 1;
    }
  }
}

void LineEditor::frame(const std::function<void()>& write_log_line) {
  const MutexLock lock(mu_);
  if (reading_) std::fputs(lift().c_str(), out_);
  std::fflush(out_);
  write_log_line();
  if (reading_) ::el_set(edit_, EL_REFRESH);
}

// From where the cursor is within the line.
std::string LineEditor::lift() {
  const LineInfo* const line = ::el_line(edit_);
  const std::string_view before(line->buffer,
                                static_cast<std::size_t>(line->cursor - line->buffer));
  winsize size{};
  const bool known = ::ioctl(fileno(out_), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  const int rows = known ? (cells(prompt_) + cells(before)) / size.ws_col : 0;
  return (rows > 0 ? "\033[" + std::to_string(rows) + "A" : "") + "\r\033[J";
}

}  // namespace outrider
