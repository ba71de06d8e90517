// The page at "/": a conversation with either program, in one file without anything from elsewhere.
//
// page.html, page.css and the scripts beside it are built into the program. A response has a nonce
// of its own, and its policy runs nothing without it: what a model writes can never become a
// script, even if the page had a fault.
//
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/serving/http/routes.h"

namespace outrider {

struct ChatPage {
  bool knows_link = false;  // "/link" says how the link is: an edge
  bool needs_key = false;   // OpenAI's routes want a key, which the page asks for
};

// Everybody gets the page, which holds no secret; the routes that it calls check who asks.
HttpRoute chat_page_route(const ChatPage& page);

}  // namespace outrider
