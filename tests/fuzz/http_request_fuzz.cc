// The bytes of an HTTP connection: wherever they are cut, the parser finds the same whole requests.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/serving/http/request_parser.h"

namespace {

using outrider::HttpRequestParser;

// All requests that came to their end, as text. piece: how many bytes come at once.
std::string understood(std::string_view bytes, std::size_t piece) {
  std::string out;
  std::string held;
  std::string body;
  HttpRequestParser parser;
  while (!parser.refusal()) {
    const HttpRequestParser::Step step = parser.put(held);
    body += step.body;
    held.erase(0, step.taken);
    if (parser.is_complete()) {
      const outrider::HttpRequest& request = parser.request();
      out += request.method + " " + request.path + "\n" + body + "\n";
      for (const auto& [name, value] : request.headers) out += name + ":" + value + "\n";
      parser = HttpRequestParser();
      body.clear();
    } else if (step.taken == 0) {
      if (bytes.empty()) break;
      const std::size_t more = std::min(piece, bytes.size());
      held += bytes.substr(0, more);
      bytes.remove_prefix(more);
    }
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const std::string whole = understood(bytes, size);
  if (whole != understood(bytes, 1) || whole != understood(bytes, 7)) std::abort();
  return 0;
}
