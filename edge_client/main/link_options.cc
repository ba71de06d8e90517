// SPDX-License-Identifier: Apache-2.0
#include "edge_client/main/link_options.h"

#include <string>

#include "common/base/address.h"

namespace outrider {
namespace {

constexpr char kLinkGroup[] = "Link";
constexpr char kOverLinkGroup[] = "Link, rarely needed";

}  // namespace

void add_link_flags(CLI::App& command, AnswerOptions& options) {
  GenerationConfig& generation = options.generation;
  AnswerConfig& answer = generation.answer;
  command
      .add_option("-s,--server", generation.server,
                  std::string("HOST:PORT of outrider-server [") + kDefaultServer + "]")
      ->group(kLinkGroup);
  command
      .add_option("--tls-ca", generation.tls_ca,
                  "Speak TLS with a server that this file's authorities vouch for; system: those "
                  "that this machine believes")
      ->group(kLinkGroup);
  command
      .add_option("--tls-cert", generation.tls_cert, "This edge's certificate, if the server asks")
      ->group(kLinkGroup);
  command.add_option("--tls-key", generation.tls_key, "Its key")->group(kLinkGroup);
  command
      .add_option("--token-file", generation.token_file,
                  "File with the key that the server's operator gave to this edge")
      ->group(kLinkGroup);
  command
      .add_flag("--pad-frames", generation.pad_frames,
                "Messages of one size, and as many for each pass: their sizes tell nothing of the "
                "text, for about ten times the bytes")
      ->group(kOverLinkGroup);
  command
      .add_option("--reconnect-timeout", options.reconnect_timeout_s,
                  "Seconds to retry a lost server before the answer ends as it is")
      ->check(CLI::Range(0.0, 86400.0))
      ->group(kLinkGroup);
  command
      .add_flag("--accept-other-arithmetic", answer.accept_other_arithmetic,
                "Go on with a server that computes in another way when the first is lost; the text "
                "may then differ from there on, which is said")
      ->group(kOverLinkGroup);
  command
      .add_option("--uplink-budget", answer.uplink_budget,
                  "mirror: most bytes per second sent before a verdict; 0: what the measured link "
                  "carries")
      ->check(CLI::Range(0.0, 1e12))
      ->group(kOverLinkGroup);
  command
      .add_flag("--insecure", options.insecure, "Allow plaintext to a server on another machine")
      ->group(kLinkGroup);
}

Status check_link(const GenerationConfig& config, const AnswerOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const Address server, parse_address(server_of(config)));
  if (config.tls_ca.empty() && (!config.tls_cert.empty() || !config.tls_key.empty())) {
    return invalid_argument("--tls-cert and --tls-key need --tls-ca, which turns TLS on");
  }
  if (config.tls_cert.empty() != config.tls_key.empty()) {
    return invalid_argument("--tls-cert and --tls-key belong together; one of them is missing");
  }
  if (config.tls_ca.empty() && !is_loopback(server.host) && !options.insecure) {
    return invalid_argument("--server " + server_of(config) +
                            ": prompts would cross the network in plaintext; speak TLS "
                            "(--tls-ca), use a tunnel to 127.0.0.1, or allow it with --insecure");
  }
  return {};
}

}  // namespace outrider
