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
#include <cwctype>
#include <utility>

#include "common/serving/telemetry/log.h"

namespace outrider {
namespace {

constexpr int kRememberedLines = 1000;

constexpr wchar_t kEscape = L'\033';
constexpr int kTabStop = 8;
constexpr char kBeginPastes[] = "\033[?2004h";  // the terminal then marks what is pasted
constexpr char kEndPastes[] = "\033[?2004l";

// Where the cursor stands after the text, in rows below its first; text: a line as it is edited,
// with its prompt; columns: of the terminal. As libedit draws it.
int rows_above_cursor(const std::wstring& text, int columns) {
  int row = 0;
  int column = 0;
  for (const wchar_t letter : text) {
    if (letter == L'\n') {
      ++row;
      column = 0;
      continue;
    }
    const int cells =
        letter == L'\t' ? kTabStop - column % kTabStop : std::max(0, ::wcwidth(letter));
    if (column + cells > columns) {
      ++row;
      column = 0;
    }
    column += cells;
    if (column >= columns) {
      ++row;
      column = 0;
    }
  }
  return row;
}

std::wstring wide(const std::string& text) {
  std::wstring letters(text.size(), L'\0');
  const std::size_t length = std::mbstowcs(letters.data(), text.c_str(), letters.size());
  letters.resize(length == static_cast<std::size_t>(-1) ? 0 : length);
  return letters;
}

// Keys that libedit's emacs mode has, and keys of ours, which no keyboard writes.
constexpr wchar_t kBegin = L'\001', kLeft = L'\002', kEnd = L'\005', kRight = L'\006';
constexpr wchar_t kDown = L'\016', kUp = L'\020';
constexpr wchar_t kPaste = L'\200', kDelete = L'\201', kWordLeft = L'\202', kWordRight = L'\203';
constexpr wchar_t kNothing = 0;

// The key that a control sequence means, without the sequence's introducer. Keys for functions and
// pages mean nothing: libedit would put the letters of a sequence that it does not know into the
// line.
wchar_t key_of(const std::wstring& sequence) {
  const bool by_words = sequence.starts_with(L"1;3") || sequence.starts_with(L"1;5");
  switch (sequence.back()) {
    case L'A':
      return kUp;
    case L'B':
      return kDown;
    case L'C':
      return by_words ? kWordRight : kRight;
    case L'D':
      return by_words ? kWordLeft : kLeft;
    case L'H':
      return kBegin;
    case L'F':
      return kEnd;
    case L'~':
      break;
    default:
      return kNothing;
  }
  switch (std::wcstol(sequence.c_str(), nullptr, 10)) {
    case 1:
    case 7:
      return kBegin;
    case 4:
    case 8:
      return kEnd;
    case 3:
      return kDelete;
    case 200:
      return kPaste;
    default:
      return kNothing;
  }
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
  ::el_set(edit_, EL_ADDFN, "insert-paste", "Insert what was pasted", &LineEditor::insert_paste_of);
  ::el_set(edit_, EL_BIND, "\\200", "insert-paste", nullptr);
  ::el_set(edit_, EL_BIND, "\\201", "ed-delete-next-char", nullptr);
  ::el_set(edit_, EL_BIND, "\\202", "ed-prev-word", nullptr);
  ::el_set(edit_, EL_BIND, "\\203", "em-next-word", nullptr);
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
    std::fputs(kBeginPastes, out_);
    reading_ = true;
    int length = 0;
    const char* const text = ::el_gets(edit_, &length);
    reading_ = false;
    ::el_set(edit_, EL_PREP_TERM, 0);
    std::fputs(kEndPastes, out_);
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

unsigned char LineEditor::insert_paste_of(EditLine* edit, int /*key*/) {
  return editor_of(edit)->insert_paste();
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

// False at the end. Bytes that are no UTF-8 are passed over.
bool LineEditor::read_letter(wchar_t& letter) {
  std::mbstate_t state{};
  while (true) {
    mu_.unlock();
    const bool there = wait_for_key();
    mu_.lock();
    char byte = 0;
    if (!there || ::read(fileno(in_), &byte, 1) != 1) return false;
    const std::size_t read = std::mbrtowc(&letter, &byte, 1, &state);
    if (read == static_cast<std::size_t>(-1)) {
      state = {};
    } else if (read != static_cast<std::size_t>(-2)) {
      return true;
    }
  }
}

// The rest of a control sequence (ECMA-48, 5.4): parameters, and the letter that ends it. Linux's
// console writes [[A for F1, and xterm O or O2 and a letter for keys of its keypad. False at the
// end.
bool LineEditor::read_sequence(std::wstring& sequence) {
  sequence.clear();
  wchar_t letter = 0;
  do {
    if (!read_letter(letter)) return false;
    sequence += letter;
  } while (letter >= L' ' && letter < L'@');
  return sequence != L"[" || read_letter(letter);
}

// Reads a paste up to the sequence that ends it. Lines end with \n; other control characters are
// left out. False at the end.
bool LineEditor::read_paste() {
  pasted_.clear();
  std::wstring sequence;
  for (wchar_t letter = 0; read_letter(letter);) {
    if (letter == kEscape) {
      if (!read_letter(letter)) return false;
      if (letter == L'[' && !read_sequence(sequence)) return false;
      if (letter == L'[' && sequence == L"201~") return true;
    } else if (letter == L'\r' || letter == L'\n') {
      pasted_ += L'\n';
    } else if (letter == L'\t' || std::iswcntrl(static_cast<std::wint_t>(letter)) == 0) {
      pasted_ += letter;
    }
  }
  return false;
}

// The next keys as libedit is to read them: none, one, or Escape and a letter. False at the end.
bool LineEditor::read_keys() {
  wchar_t letter = 0;
  if (!read_letter(letter)) return false;
  if (letter != kEscape) {
    keys_ = letter;
    return true;
  }
  while (letter == kEscape) {
    if (!read_letter(letter)) return false;
  }
  if (letter != L'[' && letter != L'O') {
    keys_ = {kEscape, letter};
    return true;
  }
  std::wstring sequence;
  if (!read_sequence(sequence)) return false;
  const wchar_t key = key_of(sequence);
  if (key != kNothing) keys_ = key;
  return key != kPaste || read_paste();
}

// 1, or 0 at the end, as libedit wants it.
int LineEditor::read_key(wchar_t* key) {
  while (keys_.empty()) {
    if (!read_keys()) return 0;
  }
  *key = keys_.front();
  keys_.erase(0, 1);
  return 1;
}

// Several lines are parts of one message: only a typed newline ends it.
unsigned char LineEditor::insert_paste() {
  const std::wstring text = std::exchange(pasted_, {});
  return ::el_winsertstr(edit_, text.c_str()) == 0 ? CC_REFRESH : CC_ERROR;
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
  const std::string before(line->buffer, line->cursor);
  winsize size{};
  const bool known = ::ioctl(fileno(out_), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  const int rows = known ? rows_above_cursor(wide(prompt_ + before), size.ws_col) : 0;
  return (rows > 0 ? "\033[" + std::to_string(rows) + "A" : "") + "\r\033[J";
}

}  // namespace outrider
