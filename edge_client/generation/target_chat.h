// The settings that answers take from the target, whichever side holds it: the chat template that
// writes prompts, and the sampling that holds where requests and flags give none.
//
//   TargetChat chat(options);                       // asks the server, while models load
//   const ChatSource source = *chat.wait();        // or now(), which never waits
//   const SamplingParams sampling = *chat.sampling(standing);
//
// The server sends both by its method Describe. One that cannot (it is older) leaves that
// of this device's own target, or else that of the edge's tokenizer, which is said. Where both
// targets may decide, their templates must be the same: a prompt is written once.
//
// Thread rule: any thread; wait() blocks. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/decoding/protocol/target_description.h"
#include "common/decoding/request/sampling_defaults.h"
#include "common/serving/conversation/chat_template.h"

namespace outrider {

struct TargetChatOptions {
  std::string name = {};       // --chat-template; empty: the target's
  bool is_given = false;       // --chat-template is a file: the target's own does not count
  ChatSource tokenizers = {};  // of the tokenizer's files, and where these lie
  std::string tokenizers_place = {};
  std::string tokenizer_hash = {};  // this edge's, which must be the server's; empty: any will do
  std::optional<ChatSource> own = {};  // of this device's target; nothing: there is none
  std::string own_name = {};           // that target's
  SamplingDefaults own_sampling = {};  // also that target's
  // The sampling that flags give, which the target's does not replace. Nothing: the target's does
  // not count (--generation-config none).
  std::optional<SamplingDefaults> sampling_flags = {};
  // Asks the server; empty: there is none. Called on a thread of its own.
  std::function<Result<TargetDescription>(const std::stop_token&)> describe = {};
  Duration patience = std::chrono::seconds(30);  // of wait(), for a server that is away
  // Told once what the user should know, on the thread of wait() or now().
  std::function<void(const std::string& line)> say = {};
};

class TargetChat final {
 public:
  explicit TargetChat(TargetChatOptions options);
  ~TargetChat();
  TargetChat(const TargetChat&) = delete;
  TargetChat& operator=(const TargetChat&) = delete;

  const std::string& name() const { return options_.name; }

  // The target's name: the server's as it last sent it, else this device's own; empty: none is
  // known.
  std::string target_name();

  // Until the server has answered for the first time, or failed to, but not for longer than that.
  void settle(Duration patience);

  // Errors: UNAVAILABLE if no server has sent it yet and there is no own target;
  // FAILED_PRECONDITION if the server's template is another than the own target's; else what the
  // server said.
  Result<ChatSource> now();
  // Waits for a server that is away, also for what sampling() needs.
  Result<ChatSource> wait();

  // Why the server refuses every answer, as it last said: FAILED_PRECONDITION for another tokenizer
  // than the target's, UNAUTHENTICATED or PERMISSION_DENIED for the key. It is asked again, as that
  // may have changed.
  Status check_server();
  // How the last try to reach the server failed; OK: it has answered, or there is none.
  Status away();

  // `standing` with the target's defaults where no flag says otherwise. UNAVAILABLE if they count
  // and no server has sent them yet.
  Result<SamplingParams> sampling(const SamplingParams& standing);

  // Another server may answer by now: it is asked again. Until it has answered, nothing changes.
  void ask_again();

 private:
  bool asks() const { return options_.describe != nullptr; }
  bool takes_targets() const;
  bool wants_sampling() const;
  bool is_told() const OUTRIDER_REQUIRES(mu_);
  Status why_untold() const OUTRIDER_REQUIRES(mu_);
  Status compare_tokenizer(const TargetDescription& told) const;
  Result<ChatSource> current() OUTRIDER_REQUIRES(mu_);
  void ask(const std::stop_token& stop);
  bool take(const Result<TargetDescription>& told);
  void take_template(const Result<TargetDescription>& told) OUTRIDER_REQUIRES(mu_);
  void say(const std::string& line);

  const TargetChatOptions options_;
  Mutex mu_;
  CondVar changed_;
  Result<ChatSource> known_ OUTRIDER_GUARDED_BY(mu_);
  std::optional<SamplingDefaults> sampling_ OUTRIDER_GUARDED_BY(mu_);  // nothing: not told yet
  std::string target_name_ OUTRIDER_GUARDED_BY(mu_);
  Status refusal_ OUTRIDER_GUARDED_BY(mu_);        // of every answer
  Status away_ OUTRIDER_GUARDED_BY(mu_);           // how the last try failed, while one may help
  bool settled_ OUTRIDER_GUARDED_BY(mu_) = false;  // the first try is over
  bool wanted_ OUTRIDER_GUARDED_BY(mu_) = false;   // the server is to be asked
  std::string line_ OUTRIDER_GUARDED_BY(mu_);      // to be said
  std::string said_ OUTRIDER_GUARDED_BY(mu_);      // the last that was
  std::jthread thread_;                            // last: it uses the others
};

}  // namespace outrider
