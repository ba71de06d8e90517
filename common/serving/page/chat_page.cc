// SPDX-License-Identifier: Apache-2.0
#include "common/serving/page/chat_page.h"

#include <string>
#include <string_view>
#include <utility>

#include "common/base/random_id.h"

namespace outrider {

// The files of this folder, which CMake writes into a source of its own.
extern const std::string_view kPageMarkup;
extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;

namespace {

void fill_in(std::string& text, std::string_view marker, std::string_view value) {
  for (std::size_t at = 0; (at = text.find(marker, at)) != std::string::npos; at += value.size()) {
    text.replace(at, marker.size(), value);
  }
}

HttpResponse response_of(const ChatPage& page) {
  const std::string nonce = random_id();
  std::string markup(kPageMarkup);
  fill_in(markup, "@NONCE@", nonce);
  fill_in(markup, "@LINK@", page.knows_link ? "told" : "none");
  fill_in(markup, "@KEY@", page.needs_key ? "needed" : "none");
  // Last, as they may hold what looks like a marker.
  fill_in(markup, "@STYLE@", kPageStyle);
  fill_in(markup, "@SCRIPT@", kPageScript);
  const std::string policy = "default-src 'none'; style-src 'nonce-" + nonce +
                             "'; script-src 'nonce-" + nonce +
                             "'; connect-src 'self'; img-src data:; base-uri 'none'; "
                             "form-action 'none'; frame-ancestors 'none'";
  return {.status = 200,
          .body = std::move(markup),
          .content_type = "text/html; charset=utf-8",
          .headers = {{"Content-Security-Policy", policy},
                      {"Referrer-Policy", "no-referrer"},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Cache-Control", "no-store"}}};
}

}  // namespace

HttpRoute chat_page_route(const ChatPage& page) {
  return page_route("GET", "/", [page](const HttpRequest&) { return response_of(page); });
}

}  // namespace outrider
