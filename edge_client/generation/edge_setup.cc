// SPDX-License-Identifier: Apache-2.0
#include "edge_client/generation/edge_setup.h"

#include <future>
#include <string>
#include <utility>

#include "common/base/address.h"
#include "common/cli/private_file.h"

namespace outrider {
namespace {

// The server compares our tokenizer with the target's; whether the draft speaks it, only we know.
Status check_draft_tokenizer(const GenerationConfig& config, const Tokenizer& tokenizer) {
  if (config.tokenizer.empty()) return {};
  const Result<Tokenizer> drafts = Tokenizer::load(config.model);
  // A directory without a tokenizer of its own leaves nothing to compare.
  if (drafts.status().code() == StatusCode::kNotFound) return {};
  if (!drafts.ok()) return drafts.status();
  if (drafts->content_hash() == tokenizer.content_hash()) return {};
  return failed_precondition("the draft " + config.model + " has another tokenizer (" +
                             drafts->content_hash() + ") than --tokenizer " + config.tokenizer +
                             " (" + tokenizer.content_hash() + "); use a draft of the same family");
}

}  // namespace

Result<std::unique_ptr<EdgeSetup>> EdgeSetup::load(const GenerationConfig& config) {
  std::unique_ptr<EdgeSetup> self(new EdgeSetup);
  std::future<Result<std::unique_ptr<LocalDraft>>> draft;
  if (wants_draft(config)) {
    draft = std::async(std::launch::async, [&config, &clock = self->clock_] {
      return LocalDraft::load(config, clock);
    });
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::string directory, tokenizer_directory(config));
  OUTRIDER_ASSIGN_OR_RETURN(self->tokenizer_, load_model_tokenizer(directory));
  if (config.target.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(const Address server, parse_address(config.server));
    RemoteOptions options{.server = server,
                          .tls_ca = config.tls_ca,
                          .tls_cert = config.tls_cert,
                          .tls_key = config.tls_key};
    if (!config.token_file.empty()) {
      OUTRIDER_ASSIGN_OR_RETURN(options.token, read_secret(config.token_file));
    }
    OUTRIDER_RETURN_IF_ERROR(RemoteVerifier::check_files(options));
    self->remote_ = std::make_unique<RemoteVerifier>(std::move(options));
  } else {
    OUTRIDER_ASSIGN_OR_RETURN(self->target_, LocalTarget::load(config, self->clock_));
  }
  if (draft.valid()) {
    OUTRIDER_RETURN_IF_ERROR(check_draft_tokenizer(config, self->tokenizer()));
    OUTRIDER_ASSIGN_OR_RETURN(self->draft_, draft.get());
  }
  return self;
}

GeneratorParts EdgeSetup::parts(SessionObserver* observer) {
  Verifier& verifier = remote_ != nullptr ? *remote_ : target_->verifier();
  return {.tokenizer = *tokenizer_,
          .draft = draft_.get(),
          .verifier = verifier,
          .link = remote_.get(),
          .clock = clock_,
          .observer = observer};
}

}  // namespace outrider
