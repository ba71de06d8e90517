// SPDX-License-Identifier: Apache-2.0
#include "bench/report/html/markup.h"

#include <fmt/core.h>

namespace outrider {

std::string html_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string svg_text(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>", x, y, anchor,
                     html_escaped(text));
}

std::string to_html(const PageFigure& figure) {
  return "<figure>\n<h3>" + html_escaped(figure.title) + " <span class=\"mark\">" +
         html_escaped(figure.mark) + "</span></h3>\n<div class=\"wide\">" + figure.body +
         "</div>\n<figcaption>" + html_escaped(figure.caption) + "</figcaption>\n</figure>\n";
}

std::string captioned(const std::string& markup, const std::string& caption) {
  return "<figure class=\"chart\">" + markup + "<figcaption>" + html_escaped(caption) +
         "</figcaption></figure>\n";
}

std::string to_html(const TextTable& table) {
  const auto row = [](const std::vector<std::string>& cells, const std::string& tag) {
    std::string text = "<tr>";
    for (const std::string& cell : cells) {
      text += "<" + tag + ">" + html_escaped(cell) + "</" + tag + ">";
    }
    return text + "</tr>";
  };
  std::string text = "<table><thead>" + row(table.heads, "th") + "</thead><tbody>";
  for (const auto& cells : table.rows) text += row(cells, "td");
  return text + "</tbody></table>";
}

std::string_view page_style() {
  return R"css(
:root { color-scheme: light dark; --ink: #1d2126; --soft: #5a6472; --paper: #ffffff;
        --edge: #d8dde3; --grid: #dddddd; --best: #cfe8d4; --bad: #f6d2d2; --good: #eaf4ec; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --soft: #9aa4b2; --paper: #15181c; --edge: #343b44; --grid: #363c44;
          --best: #1f5130; --bad: #5a2526; --good: #1d3324; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1200px; padding: 1.2rem; color: var(--ink);
       background: var(--paper); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .3rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
h3 { font-size: 1rem; margin: 0 0 .5rem; }
p.lead { font-size: 1.1rem; } progress { width: 12rem; max-width: 100%; vertical-align: middle; } .soft, figcaption { color: var(--soft); font-size: .9rem; }
figure { margin: 1.4rem 0; padding: 1rem; border: 1px solid var(--edge); border-radius: 8px; }
figcaption { margin-top: .6rem; }
figure.chart { margin: 0; padding: 0; border: 0; } figure.chart figcaption { margin: 0 0 .6rem; }
.mark { font-weight: 400; font-size: .75rem; border: 1px solid var(--edge); border-radius: 1em;
        padding: .05em .6em; color: var(--soft); white-space: nowrap; }
.wide { overflow-x: auto; } svg { display: block; width: 100%; max-width: 640px; height: auto; }
.lanes svg { min-width: 480px; max-width: 800px; }
svg .grid { stroke: var(--grid); }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--edge); padding: .35em .6em; text-align: right; }
th:first-child, td:first-child { text-align: left; } th { font-weight: 600; }
td.best { background: var(--best); font-weight: 600; } td.good { background: var(--good); }
td.bad, .invalid { background: var(--bad); } td small { color: var(--soft); white-space: nowrap; }
.invalid { padding: .6rem 1rem; border-radius: 8px; }
li { overflow-wrap: anywhere; }
pre { overflow-x: auto; font-size: .8rem; } .charts { display: grid; gap: 1rem;
      grid-template-columns: repeat(auto-fit, minmax(300px, 1fr)); }
@media (max-width: 480px) { body { padding: .7rem; font-size: 15px; } figure { padding: .6rem; }
  table { font-size: .76rem; } th, td { padding: .3em .25em; }
  td small { font-size: .66rem; } }
@media print { body { max-width: none; } figure, table { break-inside: avoid; }
  .wide { overflow: visible; } details > * { display: block; } }
)css";
}

}  // namespace outrider
