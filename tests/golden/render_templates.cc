// Renders chat templates for compare_templates.py: a case a line on stdin, its text a line on
// stdout. SPDX-License-Identifier: Apache-2.0
#include <ctime>
#include <iostream>
#include <string>

#include "common/serving/conversation/jinja/template.h"

int main() {
  using Json = nlohmann::ordered_json;
  for (std::string line; std::getline(std::cin, line);) {
    const Json asked = Json::parse(line);
    outrider::jinja::RenderOptions options;
    const std::time_t now = asked["now"];
    gmtime_r(&now, &options.now);
    const auto parsed =
        outrider::jinja::Template::parse(asked["template"].get_ref<const std::string&>());
    Json answer = Json::object();
    if (!parsed.ok()) {
      answer["error"] = parsed.status().message();
    } else if (const auto text = parsed->render(asked["trusted"], asked["context"], options);
               !text.ok()) {
      answer["error"] = text.status().message();
    } else {
      answer["text"] = text->text;
    }
    std::cout << answer.dump() << '\n';
  }
}
