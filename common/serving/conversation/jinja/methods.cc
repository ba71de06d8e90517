// The methods of Python's strings, lists and dictionaries that do not modify them.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <algorithm>

#include "common/serving/conversation/jinja/machine.h"

namespace outrider::jinja {
namespace {

const TextData& self_text(const Value& value) {
  return *value.text();
}

// Line ends as in Python's str.splitlines(): the bytes of the break at text[at], or 0.
std::size_t line_break_at(std::string_view text, std::size_t at) {
  if (text.substr(at).starts_with("\r\n")) return 2;
  const auto byte = static_cast<unsigned char>(text[at]);
  if ((byte >= 0x0a && byte <= 0x0d) || (byte >= 0x1c && byte <= 0x1e)) return 1;
  if (text.substr(at).starts_with("\u0085")) return 2;
  return text.substr(at).starts_with("\u2028") || text.substr(at).starts_with("\u2029") ? 3 : 0;
}

Value split_lines(Machine& machine, const TextData& text, bool keep_ends) {
  std::vector<Value> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.bytes.size();) {
    const std::size_t length = line_break_at(text.bytes, at);
    machine.steps().look_closely(1);
    if (length == 0) {
      at = next_character(text.bytes, at);
      continue;
    }
    lines.push_back(machine.arena().slice(text, begin, (keep_ends ? at + length : at) - begin));
    begin = at += length;
  }
  if (begin < text.bytes.size())
    lines.push_back(machine.arena().slice(text, begin, text.bytes.size() - begin));
  return machine.arena().list(std::move(lines));
}

// Parts [begin, length) of a text split at white space, or at a separator, with at most `most`
// splits.
using Parts = std::vector<std::pair<std::size_t, std::size_t>>;

Parts split_at_spaces(std::string_view text, std::int64_t most, Steps& steps) {
  Parts parts;
  std::size_t at = 0;
  // The length of white space here, or 0.
  const auto space = [&] {
    steps.look_closely(1);
    return at < text.size() ? space_at(text, at) : 0;
  };
  const auto skip = [&] {
    while (const std::size_t length = space()) at += length;
  };
  for (skip(); at < text.size(); skip()) {
    const std::size_t begin = at;
    if (most >= 0 && std::ssize(parts) == most) {
      std::size_t end = begin;
      while (at < text.size()) {
        const std::size_t length = space();
        at = length > 0 ? at + length : next_character(text, at);
        if (length == 0) end = at;
      }
      parts.emplace_back(begin, end - begin);
      break;
    }
    while (at < text.size() && space() == 0) at = next_character(text, at);
    parts.emplace_back(begin, at - begin);
  }
  return parts;
}

Parts split_at(std::string_view text, std::string_view separator, std::int64_t most,
               bool from_right, Steps& steps) {
  if (separator.empty()) fail("empty separator");
  Parts parts;
  std::size_t begin = 0, end = text.size();  // of what is not split yet
  const auto visit = [&](std::size_t found) {
    const std::size_t behind = found + separator.size();
    if (from_right) {
      parts.emplace_back(behind, end - behind);
      end = found;
    } else {
      parts.emplace_back(begin, found - begin);
      begin = behind;
    }
    return most < 0 || std::ssize(parts) < most;
  };
  if (most != 0) each_match(text, separator, from_right, steps, visit);
  parts.emplace_back(begin, end - begin);
  if (from_right) std::ranges::reverse(parts);
  return parts;
}

Value split(Machine& machine, const TextData& text, const Bound& bound, bool from_right) {
  const std::int64_t most = bound[1] ? integer_argument(*bound[1], "split") : -1;
  const bool at_spaces = !bound[0] || bound[0]->is_none();
  if (at_spaces && from_right && most >= 0)
    fail("rsplit() at white space with a limit is not supported");
  const Parts parts = at_spaces ? split_at_spaces(text.bytes, most, machine.steps())
                                : split_at(text.bytes, text_argument(*bound[0], "split").bytes,
                                           most, from_right, machine.steps());
  std::vector<Value> items;
  for (const auto& [begin, length] : parts)
    items.push_back(machine.arena().slice(text, begin, length));
  return machine.arena().list(std::move(items));
}

Value partition(Machine& machine, const TextData& text, const TextData& separator,
                bool from_right) {
  const Parts parts = split_at(text.bytes, separator.bytes, 1, from_right, machine.steps());
  const Value empty = machine.arena().text({}, Origin::kTemplate);
  const auto part = [&](std::size_t i) {
    return machine.arena().slice(text, parts[i].first, parts[i].second);
  };
  if (parts.size() == 1) {
    return machine.arena().list(
        from_right ? std::vector{empty, empty, part(0)} : std::vector{part(0), empty, empty}, true);
  }
  const std::size_t middle = parts[0].first + parts[0].second;
  return machine.arena().list(
      {part(0), machine.arena().slice(text, middle, separator.bytes.size()), part(1)}, true);
}

bool has_affix(std::string_view text, const Value& affix, bool at_end, Steps& steps) {
  const auto matches = [&](const Value& one) {
    const std::string& bytes = text_argument(one, at_end ? "endswith" : "startswith").bytes;
    steps.look(16 + std::min(bytes.size(), text.size()));
    return at_end ? text.ends_with(bytes) : text.starts_with(bytes);
  };
  if (const List* list = affix.list(); list != nullptr && list->is_tuple)
    return std::ranges::any_of(list->items, matches);
  return matches(affix);
}

// The bytes from character `begin` to character `end` of a text, for str methods.
std::string_view part_of(std::string_view text, const std::optional<Value>& begin,
                         const std::optional<Value>& end, Steps& steps) {
  if (!begin && !end) return text;
  const auto length = static_cast<std::int64_t>(count_characters(text, steps));
  const auto place = [&](const std::optional<Value>& value, std::int64_t standard) {
    if (!value || value->is_none()) return standard;
    const std::int64_t at = integer_argument(*value, "str");
    return std::clamp<std::int64_t>(at < 0 ? at + length : at, 0, length);
  };
  const std::int64_t from = place(begin, 0), to = place(end, length);
  steps.look_closely(static_cast<std::size_t>(std::max(from, to)));
  std::size_t first = 0;
  for (std::int64_t i = 0; i < from; ++i) first = next_character(text, first);
  std::size_t last = first;
  for (std::int64_t i = from; i < to; ++i) last = next_character(text, last);
  return text.substr(first, last - first);
}

Value find_in(const TextData& text, const TextData& wanted, bool from_right, bool must_be_there,
              Steps& steps) {
  const std::size_t found = find_match(text.bytes, wanted.bytes, from_right, steps);
  if (found == std::string::npos) {
    if (must_be_there) fail("substring not found");
    return {std::int64_t{-1}};
  }
  return {static_cast<std::int64_t>(
      count_characters(std::string_view(text.bytes).substr(0, found), steps))};
}

std::int64_t count_in(std::string_view text, std::string_view wanted, Steps& steps) {
  if (wanted.empty()) return static_cast<std::int64_t>(count_characters(text, steps)) + 1;
  std::int64_t count = 0;
  each_match(text, wanted, false, steps, [&](std::size_t) {
    ++count;
    return true;
  });
  return count;
}

TextData capitalized(const TextData& text, bool every_word, Steps& steps) {
  const TextData lower = with_case(text, false, steps);
  TextBuilder out(steps);
  bool begins = true;
  std::size_t plain = 0;  // the start of what is written as it is
  for (std::size_t at = 0; at < lower.bytes.size();) {
    const std::size_t next = next_character(lower.bytes, at);
    steps.look_closely(1);
    if (begins) {
      out.append(lower, plain, at - plain);
      TextBuilder one(steps);
      one.append(lower, at, next - at);
      out.append(with_case(one.take(), true, steps));
      plain = next;
      if (next - at > 1) steps.take(8);  // it is looked up in a table
    }
    const char byte = lower.bytes[at];
    const bool is_letter = (byte >= 'a' && byte <= 'z') || static_cast<unsigned char>(byte) >= 0x80;
    begins = every_word && !is_letter;
    at = next;
  }
  out.append(lower, plain, lower.bytes.size() - plain);
  return out.take();
}

// isdigit() and similar, for ASCII; other characters count as letters.
bool consists_of(std::string_view text, std::string_view kind, Steps& steps) {
  steps.look_closely(text.size());
  const auto is_lower = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_upper = [](char c) { return c >= 'A' && c <= 'Z'; };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_letter = [&](char c) {
    return is_lower(c) || is_upper(c) || static_cast<unsigned char>(c) >= 0x80;
  };
  if (kind == "islower")
    return std::ranges::any_of(text, is_lower) && std::ranges::none_of(text, is_upper);
  if (kind == "isupper")
    return std::ranges::any_of(text, is_upper) && std::ranges::none_of(text, is_lower);
  if (text.empty()) return false;
  if (kind == "isalpha") return std::ranges::all_of(text, is_letter);
  if (kind == "isalnum")
    return std::ranges::all_of(text, [&](char c) { return is_letter(c) || is_digit(c); });
  if (kind == "isspace") {
    for (std::size_t at = 0; at < text.size(); at += space_at(text, at)) {
      if (space_at(text, at) == 0) return false;
    }
    return true;
  }
  return std::ranges::all_of(text, is_digit);
}

using Method = Value (*)(Machine&, const TextData&, const Arguments&, std::string_view name);
struct TextMethod {
  std::string_view name;
  Method call;
};

Value text_method(Machine& machine, TextData text) {
  return machine.arena().text(std::move(text));
}

Value strip_method(Machine& machine, const TextData& text, const Arguments& given,
                   std::string_view name) {
  const Bound bound = bind(given, name, {"chars"});
  const bool by_space = !bound[0] || bound[0]->is_none();
  const std::optional<std::string_view> characters =
      by_space ? std::nullopt
               : std::optional<std::string_view>(text_argument(*bound[0], name).bytes);
  return text_method(
      machine, stripped(text, characters, name != "rstrip", name != "lstrip", machine.steps()));
}

Value affix_method(Machine& machine, const TextData& text, const Arguments& given,
                   std::string_view name) {
  const Bound bound = bind(given, name, {"prefix", "start", "end"});
  if (!bound[0]) fail("startswith() takes at least 1 argument");
  const std::string_view part = part_of(text.bytes, bound[1], bound[2], machine.steps());
  return {has_affix(part, *bound[0], name == "endswith", machine.steps())};
}

Value remove_affix_method(Machine& machine, const TextData& text, const Arguments& given,
                          std::string_view name) {
  const Bound bound = bind(given, name, {"affix"});
  if (!bound[0]) fail("removeprefix() takes exactly one argument");
  const std::string& affix = text_argument(*bound[0], name).bytes;
  const bool at_end = name == "removesuffix";
  if (!has_affix(text.bytes, *bound[0], at_end, machine.steps())) return text_method(machine, text);
  return machine.arena().slice(text, at_end ? 0 : affix.size(), text.bytes.size() - affix.size());
}

Value split_method(Machine& machine, const TextData& text, const Arguments& given,
                   std::string_view name) {
  return split(machine, text, bind(given, name, {"sep", "maxsplit"}), name == "rsplit");
}

Value replace_method(Machine& machine, const TextData& text, const Arguments& given,
                     std::string_view name) {
  const Bound bound = bind(given, name, {"old", "new", "count"});
  if (!bound[0] || !bound[1]) fail("replace expected at least 2 arguments");
  return text_method(
      machine, replaced(text, text_argument(*bound[0], name).bytes, text_argument(*bound[1], name),
                        bound[2] ? integer_argument(*bound[2], name) : -1, machine.steps()));
}

Value find_method(Machine& machine, const TextData& text, const Arguments& given,
                  std::string_view name) {
  const Bound bound = bind(given, name, {"sub"});
  if (!bound[0]) fail("find() takes at least 1 argument");
  const TextData& wanted = text_argument(*bound[0], name);
  if (name == "count") return {count_in(text.bytes, wanted.bytes, machine.steps())};
  return find_in(text, wanted, name.starts_with('r'), name.ends_with("index"), machine.steps());
}

Value join_method(Machine& machine, const TextData& text, const Arguments& given,
                  std::string_view name) {
  const Bound bound = bind(given, name, {"iterable"});
  if (!bound[0]) fail("join() takes exactly one argument");
  TextBuilder out(machine.steps());
  bool is_first = true;
  for (const Value& item : items_of(machine, *bound[0])) {
    if (!std::exchange(is_first, false)) out.append(text);
    out.append(text_argument(item, name));
  }
  return text_method(machine, out.take());
}

Value case_method(Machine& machine, const TextData& text, const Arguments& given,
                  std::string_view name) {
  bind(given, name, {});
  if (name == "capitalize" || name == "title")
    return text_method(machine, capitalized(text, name == "title", machine.steps()));
  return text_method(machine, with_case(text, name == "upper", machine.steps()));
}

Value pad_method(Machine& machine, const TextData& text, const Arguments& given,
                 std::string_view name) {
  const Bound bound = bind(given, name, {"width", "fillchar"});
  if (!bound[0]) fail("ljust expected at least 1 argument");
  return padded(machine, text, *bound[0], bound[1], name == "ljust" ? -1 : name == "rjust" ? 1 : 0);
}

Value partition_method(Machine& machine, const TextData& text, const Arguments& given,
                       std::string_view name) {
  const Bound bound = bind(given, name, {"sep"});
  if (!bound[0]) fail("partition() takes exactly one argument");
  return partition(machine, text, text_argument(*bound[0], name), name == "rpartition");
}

Value kind_method(Machine& machine, const TextData& text, const Arguments& given,
                  std::string_view name) {
  bind(given, name, {});
  return {consists_of(text.bytes, name, machine.steps())};
}

Value lines_method(Machine& machine, const TextData& text, const Arguments& given,
                   std::string_view name) {
  const Bound bound = bind(given, name, {"keepends"});
  return split_lines(machine, text, bound[0] && is_true(*bound[0]));
}

Value format_method(Machine& machine, const TextData& text, const Arguments& given,
                    std::string_view) {
  return format_braces(machine, text, given);
}

Value zfill_method(Machine& machine, const TextData& text, const Arguments& given,
                   std::string_view name) {
  const Bound bound = bind(given, name, {"width"});
  if (!bound[0]) fail("zfill() takes exactly one argument");
  return padded(machine, text, *bound[0], machine.arena().text("0", Origin::kTemplate), 1);
}

constexpr TextMethod kTextMethods[] = {{"strip", strip_method},
                                       {"lstrip", strip_method},
                                       {"rstrip", strip_method},
                                       {"startswith", affix_method},
                                       {"endswith", affix_method},
                                       {"removeprefix", remove_affix_method},
                                       {"removesuffix", remove_affix_method},
                                       {"split", split_method},
                                       {"rsplit", split_method},
                                       {"splitlines", lines_method},
                                       {"replace", replace_method},
                                       {"find", find_method},
                                       {"rfind", find_method},
                                       {"index", find_method},
                                       {"rindex", find_method},
                                       {"count", find_method},
                                       {"join", join_method},
                                       {"lower", case_method},
                                       {"casefold", case_method},
                                       {"upper", case_method},
                                       {"capitalize", case_method},
                                       {"title", case_method},
                                       {"ljust", pad_method},
                                       {"rjust", pad_method},
                                       {"center", pad_method},
                                       {"zfill", zfill_method},
                                       {"partition", partition_method},
                                       {"rpartition", partition_method},
                                       {"isdigit", kind_method},
                                       {"isdecimal", kind_method},
                                       {"isnumeric", kind_method},
                                       {"isalpha", kind_method},
                                       {"isalnum", kind_method},
                                       {"isspace", kind_method},
                                       {"islower", kind_method},
                                       {"isupper", kind_method},
                                       {"format", format_method}};

constexpr std::string_view kDictMethods[] = {"get", "items", "keys", "values", "copy"};
constexpr std::string_view kListMethods[] = {"index", "count", "copy"};
constexpr std::string_view kLoopMethods[] = {"cycle", "changed"};

Value dict_method(Machine& machine, const Dict& dict, std::string_view name,
                  const Arguments& given) {
  if (name == "get") {
    const Bound bound = bind(given, name, {"key", "default"});
    if (!bound[0]) fail("get expected at least 1 argument");
    const Value* found = dict.find(*bound[0], machine.steps());
    return found != nullptr ? *found : bound[1].value_or(Value{None{}});
  }
  bind(given, name, {});
  if (name == "copy") {
    Dict* copy = machine.arena().dict();
    for (const auto& [key, value] : dict.entries) machine.arena().add(*copy, key, value);
    return {copy};
  }
  std::vector<Value> items;
  for (const auto& [key, value] : dict.entries) {
    machine.steps().look(sizeof(Value));
    items.push_back(name == "keys"     ? key
                    : name == "values" ? value
                                       : machine.arena().list({key, value}, true));
  }
  return machine.arena().list(std::move(items));
}

Value list_method(Machine& machine, const List& list, std::string_view name,
                  const Arguments& given) {
  if (name == "copy") {
    machine.steps().look(list.items.size() * sizeof(Value));
    return machine.arena().list(list.items, list.is_tuple);
  }
  const Bound bound = bind(given, name, {"value"});
  if (!bound[0]) fail(fmt::format("{}() takes exactly one argument", name));
  std::int64_t count = 0;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (!are_equal(list.items[i], *bound[0], machine.steps())) continue;
    if (name == "index") return {static_cast<std::int64_t>(i)};
    ++count;
  }
  if (name == "index") fail("the value is not in the list");
  return {count};
}

Value loop_method(Machine& machine, Loop& loop, std::string_view name, const Arguments& given) {
  if (name == "cycle") {
    if (given.positional.empty()) fail("no items for cycling given");
    return given.positional[loop.index % given.positional.size()];
  }
  const bool same =
      loop.last_changed.size() == given.positional.size() &&
      std::ranges::equal(loop.last_changed, given.positional, [&](const Value& a, const Value& b) {
        return are_equal(a, b, machine.steps());
      });
  if (same) return {false};
  loop.last_changed = given.positional;
  return {true};
}

}  // namespace

bool has_method(const Value& value, std::string_view name) {
  if (value.text() != nullptr)
    return std::ranges::find(kTextMethods, name, &TextMethod::name) != std::end(kTextMethods);
  if (value.dict() != nullptr)
    return !value.dict()->is_namespace &&
           std::ranges::find(kDictMethods, name) != std::end(kDictMethods);
  if (value.list() != nullptr)
    return std::ranges::find(kListMethods, name) != std::end(kListMethods);
  return value.loop() != nullptr && std::ranges::find(kLoopMethods, name) != std::end(kLoopMethods);
}

Value call_method(Machine& machine, const Value& value, std::string_view name,
                  const Arguments& given) {
  if (value.text() != nullptr) {
    return std::ranges::find(kTextMethods, name, &TextMethod::name)
        ->call(machine, self_text(value), given, name);
  }
  if (value.dict() != nullptr) return dict_method(machine, *value.dict(), name, given);
  if (value.list() != nullptr) return list_method(machine, *value.list(), name, given);
  return loop_method(machine, *value.loop(), name, given);
}

}  // namespace outrider::jinja
