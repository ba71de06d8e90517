// SPDX-License-Identifier: Apache-2.0
#include "edge_client/generation/target_chat.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "common/serving/conversation/named_templates.h"

namespace outrider {
namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(100);
constexpr Duration kLongestPause = std::chrono::seconds(2);

// Whether the error may be gone the next time, as that of a server that is away or full.
bool is_transient(const Status& status) {
  return status.code() == StatusCode::kUnavailable ||
         status.code() == StatusCode::kDeadlineExceeded ||
         status.code() == StatusCode::kResourceExhausted;
}

// Whether the key is refused, so that every request would get the same answer.
bool refuses_all(const Status& status) {
  return status.code() == StatusCode::kUnauthenticated ||
         status.code() == StatusCode::kPermissionDenied;
}

bool is_untold(const Status& known) {
  return known.code() == StatusCode::kUnavailable;
}

std::string told(const std::string& hash) {
  return hash.empty() ? "has none" : "has SHA-256 " + hash;
}

// The template that the server sent, if it has the hash that the server sent.
Result<ChatSource> source_of(const TargetDescription& target) {
  ChatSource source{
      .templates = target.templates, .bos = target.bos, .eos = target.eos, .chosen = target.chosen};
  if (template_hash(source) == target.template_hash) return source;
  if (target.templates.empty()) {
    return failed_precondition("the server's chat template (SHA-256 " + target.template_hash +
                               ") is too large to be sent. Remedy: --chat-template NAME, of " +
                               chat_template_names() + " or none");
  }
  return internal_error("the server's chat template does not have the hash that it sent");
}

}  // namespace

TargetChat::TargetChat(TargetChatOptions options)
    : options_(std::move(options)),
      known_(unavailable("no server has sent its chat template yet")),
      target_name_(options_.own_name) {
  if (options_.own) {
    known_ = *options_.own;
  } else if (!asks() || !takes_targets()) {
    known_ = options_.tokenizers;
  }
  if (options_.own || !wants_sampling()) sampling_ = options_.own_sampling;
  wanted_ = asks();
  settled_ = !wanted_;
  if (wanted_) thread_ = std::jthread([this](const std::stop_token& stop) { ask(stop); });
}

TargetChat::~TargetChat() {
  thread_.request_stop();
  const MutexLock lock(mu_);
  changed_.notify_all();
}

// A template of ours that the user named needs nothing of the target; a template of the target's
// does.
bool TargetChat::takes_targets() const {
  const std::string& name = options_.name;
  return !options_.is_given && (name.empty() || (name != "none" && !named_chat_template(name)));
}

Status TargetChat::compare_tokenizer(const TargetDescription& told) const {
  if (options_.tokenizer_hash.empty() || told.tokenizer_hash == options_.tokenizer_hash) return {};
  return failed_precondition(
      "the server's target has the tokenizer " + told.tokenizer_hash + ", this edge has " +
      options_.tokenizer_hash + " (" + options_.tokenizers_place +
      "), so it refuses every answer. Remedy: --model or --tokenizer with the "
      "target's tokenizer, or another --server");
}

Status TargetChat::check_server() {
  const MutexLock lock(mu_);
  if (!refusal_.ok()) {
    wanted_ = asks();
    changed_.notify_all();
  }
  return refusal_;
}

Status TargetChat::away() {
  const MutexLock lock(mu_);
  return settled_ ? away_ : unavailable("the server has not answered yet");
}

bool TargetChat::wants_sampling() const {
  return asks() && options_.sampling_flags && !options_.sampling_flags->is_whole();
}

bool TargetChat::is_told() const {
  return sampling_ && (known_.ok() || !is_untold(known_.status()));
}

// While the last try may be repeated.
Status TargetChat::why_untold() const {
  if (!away_.ok()) return away_;
  return known_.ok() ? unavailable("no server has said yet how it samples") : known_.status();
}

std::string TargetChat::target_name() {
  const MutexLock lock(mu_);
  return target_name_;
}

void TargetChat::settle(Duration patience) {
  const TimePoint until = std::chrono::steady_clock::now() + patience;
  const MutexLock lock(mu_);
  while (!settled_ && std::chrono::steady_clock::now() < until) changed_.wait_until(mu_, until);
}

Result<ChatSource> TargetChat::current() {
  if (known_.ok()) return known_;
  // The fault may be mended by now: the next caller gets a fresh answer.
  wanted_ = asks();
  changed_.notify_all();
  return is_untold(known_.status()) && !away_.ok() ? away_ : known_;
}

Result<ChatSource> TargetChat::now() {
  MutexLock lock(mu_);
  const Result<ChatSource> known = current();
  const std::string line = std::exchange(line_, {});
  lock.unlock();
  if (!line.empty()) say(line);
  return known;
}

Result<ChatSource> TargetChat::wait() {
  const TimePoint until = std::chrono::steady_clock::now() + options_.patience;
  bool told_of_retries = false;
  MutexLock lock(mu_);
  while (!is_told()) {
    if (!settled_) {  // the first try is waited for, however short the patience
      changed_.wait(mu_);
    } else if (std::chrono::steady_clock::now() >= until) {
      return unavailable(fmt::format("gave up after {:.1f} s of retries (--reconnect-timeout): {}",
                                     to_seconds(options_.patience), why_untold().message()));
    } else if (!away_.ok() && !std::exchange(told_of_retries, true)) {
      const std::string line = fmt::format("link: {}; retrying for up to {:.1f} s", away_.message(),
                                           to_seconds(options_.patience));
      lock.unlock();
      say(line);
      lock.lock();
    } else {
      changed_.wait_until(mu_, until);
    }
  }
  lock.unlock();
  return now();
}

Result<SamplingParams> TargetChat::sampling(const SamplingParams& standing) {
  if (!options_.sampling_flags) return standing;
  const MutexLock lock(mu_);
  if (!sampling_) return why_untold();
  return with_defaults(with_defaults(standing, *sampling_), *options_.sampling_flags);
}

void TargetChat::ask_again() {
  const MutexLock lock(mu_);
  wanted_ = asks();
  changed_.notify_all();
}

void TargetChat::ask(const std::stop_token& stop) {
  Duration pause = kFirstPause;
  while (!stop.stop_requested()) {
    {
      const MutexLock lock(mu_);
      while (!wanted_ && !stop.stop_requested()) changed_.wait(mu_);
    }
    if (stop.stop_requested()) return;
    if (take(options_.describe(stop))) {
      pause = kFirstPause;
      continue;
    }
    const TimePoint until = std::chrono::steady_clock::now() + pause;
    pause = std::min(2 * pause, kLongestPause);
    const MutexLock lock(mu_);
    while (!stop.stop_requested() && std::chrono::steady_clock::now() < until) {
      changed_.wait_until(mu_, until);
    }
  }
}

// False: it should be asked again.
bool TargetChat::take(const Result<TargetDescription>& told_target) {
  const MutexLock lock(mu_);
  settled_ = true;
  changed_.notify_all();
  if (!told_target.ok() && is_transient(told_target.status())) {
    away_ = told_target.status();
    return false;
  }
  away_ = Status();
  wanted_ = false;
  refusal_ = refuses_all(told_target.status()) ? told_target.status()
             : told_target.ok()                ? compare_tokenizer(*told_target)
                                               : Status();
  if (told_target.ok()) target_name_ = told_target->model_name;
  // One that cannot say it, or says nothing that can be used, refuses the answer itself.
  sampling_ = told_target.ok() ? told_target->sampling : options_.own_sampling;
  if (takes_targets()) take_template(told_target);
  return true;
}

void TargetChat::take_template(const Result<TargetDescription>& told_target) {
  if (told_target.status().code() == StatusCode::kUnimplemented) {
    known_ = options_.own.value_or(options_.tokenizers);
    line_ = "chat template: that of " +
            (options_.own ? std::string("this device's target") : options_.tokenizers_place) +
            ", because the server does not send its target's";
    if (line_ == said_) line_.clear();
    if (!line_.empty()) said_ = line_;
    return;
  }
  if (!told_target.ok()) {
    known_ = told_target.status();
    return;
  }
  known_ = source_of(*told_target);
  if (!options_.own || !known_.ok()) return;
  const std::string own = template_hash(*options_.own);
  if (own == told_target->template_hash) return;
  known_ = failed_precondition("the server's chat template " + told(told_target->template_hash) +
                               ", that of this device's target " + told(own) +
                               ": either would get prompts in the other's form. Remedy: a target "
                               "with the server's template, or --chat-template NAME for both");
}

void TargetChat::say(const std::string& line) {
  if (options_.say) options_.say(line);
}

}  // namespace outrider
