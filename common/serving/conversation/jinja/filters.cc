// jinja2's built-in filters of sequences and mappings, as far as chat templates use them.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "common/serving/conversation/jinja/machine.h"

namespace outrider::jinja {
namespace {

// "a.b.0" of an item, as in attribute="a.b.0".
Value path_of(Machine& machine, const Value& item, const Value& path,
              const std::optional<Value>& standard) {
  Value value = item;
  machine.steps().take(1);
  if (path.is_integer()) {
    value = machine.item(value, path);
  } else {
    const Value parts = call_method(
        machine, path.text() != nullptr ? path : machine.arena().text({}, Origin::kTemplate),
        "split", {{machine.arena().text(".", Origin::kTemplate)}, {}});
    for (const Value& part : parts.list()->items) {
      const std::string& name = part.text()->bytes;
      std::int64_t index = 0;
      const bool is_index = std::from_chars(name.data(), name.data() + name.size(), index).ptr ==
                                name.data() + name.size() &&
                            !name.empty();
      value = machine.item(value, is_index ? Value{index} : part);
      if (value.is_undefined() && standard) return *standard;
    }
  }
  return value.is_undefined() && standard ? *standard : value;
}

// Takes a step, for each item asks for it.
Value lowered(Machine& machine, const Value& value) {
  machine.steps().take(1);
  return value.text() != nullptr
             ? machine.arena().text(with_case(*value.text(), false, machine.steps()))
             : value;
}

void sort_by(Machine& machine, std::vector<std::pair<Value, Value>>& keyed, bool reverse) {
  std::ranges::stable_sort(keyed, [&](const auto& a, const auto& b) {
    return reverse ? compare(b.first, a.first, machine.steps()) < 0
                   : compare(a.first, b.first, machine.steps()) < 0;
  });
}

Value sort_filter(Machine& machine, const Value& value, const Arguments& given,
                  std::string_view name) {
  const Bound bound = bind(given, name, {"reverse", "case_sensitive", "attribute"});
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : items_of(machine, value)) {
    const Value key =
        bound[2] && !bound[2]->is_none() ? path_of(machine, item, *bound[2], std::nullopt) : item;
    keyed.emplace_back(is_set(bound[1]) ? key : lowered(machine, key), item);
  }
  sort_by(machine, keyed, is_set(bound[0]));
  std::vector<Value> items;
  for (const auto& [_, item] : keyed) items.push_back(item);
  return machine.arena().list(std::move(items));
}

Value dictsort_filter(Machine& machine, const Value& value, const Arguments& given,
                      std::string_view name) {
  const Bound bound = bind(given, name, {"case_sensitive", "by", "reverse"});
  if (value.dict() == nullptr)
    fail(fmt::format("'{}' object has no attribute 'items'", value.type_name()));
  const bool by_value = bound[1] && text_argument(bound[1], name).bytes == "value";
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [key, held] : value.dict()->entries) {
    machine.steps().take(1);
    const Value& by = by_value ? held : key;
    keyed.emplace_back(is_set(bound[0]) ? by : lowered(machine, by),
                       machine.arena().list({key, held}, true));
  }
  sort_by(machine, keyed, is_set(bound[2]));
  std::vector<Value> items;
  for (const auto& [_, item] : keyed) items.push_back(item);
  return machine.arena().list(std::move(items));
}

Value join_filter(Machine& machine, const Value& value, const Arguments& given,
                  std::string_view name) {
  const Bound bound = bind(given, name, {"d", "attribute"});
  const TextData between = bound[0] ? string_of(machine, *bound[0]) : TextData{};
  TextBuilder out(machine.steps());
  bool is_first = true;
  for (const Value& item : items_of(machine, value)) {
    if (!std::exchange(is_first, false)) out.append(between);
    append_string(bound[1] ? path_of(machine, item, *bound[1], std::nullopt) : item, out);
  }
  return machine.arena().text(out.take());
}

Value extreme_filter(Machine& machine, const Value& value, const Arguments& given,
                     std::string_view name) {
  const Bound bound = bind(given, name, {"case_sensitive", "attribute"});
  std::optional<std::pair<Value, Value>> best;
  for (const Value& item : items_of(machine, value)) {
    Value key = bound[1] ? path_of(machine, item, *bound[1], std::nullopt) : item;
    if (!is_set(bound[0])) key = lowered(machine, key);
    const bool is_better =
        !best || (name == "min" ? compare(key, best->first, machine.steps()) < 0
                                : compare(best->first, key, machine.steps()) < 0);
    if (is_better) best = {key, item};
  }
  return best ? best->second : Value{Undefined{"the first item of an empty sequence"}};
}

Value sum_filter(Machine& machine, const Value& value, const Arguments& given,
                 std::string_view name) {
  const Bound bound = bind(given, name, {"attribute", "start"});
  double sum = 0;
  bool is_integer = true;
  std::int64_t integer = 0;
  const auto add = [&](const Value& item) {
    machine.steps().take(1);
    if (!item.is_number())
      fail(fmt::format("unsupported operand type(s) for +: 'int' and '{}'", item.type_name()));
    is_integer = is_integer && item.is_integer();
    sum += item.real();
    if (is_integer && __builtin_add_overflow(integer, item.integer(), &integer))
      fail("a number is out of range");
  };
  add(bound[1].value_or(Value{std::int64_t{0}}));
  for (const Value& item : items_of(machine, value)) {
    add(bound[0] && !bound[0]->is_none() ? path_of(machine, item, *bound[0], std::nullopt) : item);
  }
  return is_integer ? Value{integer} : Value{sum};
}

Value unique_filter(Machine& machine, const Value& value, const Arguments& given,
                    std::string_view name) {
  const Bound bound = bind(given, name, {"case_sensitive", "attribute"});
  std::unordered_multimap<std::size_t, Value> seen;  // by their hashes
  std::vector<Value> items;
  for (const Value& item : items_of(machine, value)) {
    Value key = bound[1] ? path_of(machine, item, *bound[1], std::nullopt) : item;
    if (!is_set(bound[0])) key = lowered(machine, key);
    const std::size_t hash = hash_of(key, machine.steps());
    const auto [begin, end] = seen.equal_range(hash);
    if (std::any_of(begin, end, [&](const auto& other) {
          return are_equal(key, other.second, machine.steps());
        }))
      continue;
    seen.emplace(hash, key);
    items.push_back(item);
  }
  return machine.arena().list(std::move(items), false, true);
}

Value map_filter(Machine& machine, const Value& value, const Arguments& given,
                 std::string_view name) {
  // Like jinja2, which skips a value that is empty or none.
  std::vector<Value> items;
  if (is_true(value)) append_items(machine, items_of(machine, value), items);
  if (given.positional.empty()) {
    const Bound bound = bind(given, name, {"attribute", "default"});
    if (!bound[0]) fail("map requires a filter argument");
    for (Value& item : items) item = path_of(machine, item, *bound[0], bound[1]);
  } else {
    const TextData& filter = text_argument(given.positional[0], name);
    if (!is_filter(filter.bytes))
      fail(fmt::format("there is no filter named {}", printable(filter.bytes)));
    const Arguments rest{{given.positional.begin() + 1, given.positional.end()}, given.named};
    for (Value& item : items) item = apply_filter(machine, filter.bytes, item, rest);
  }
  return machine.arena().list(std::move(items), false, true);
}

// select, reject, selectattr, rejectattr.
Value select_filter(Machine& machine, const Value& value, const Arguments& given,
                    std::string_view name) {
  const bool by_attribute = name.ends_with("attr"), wanted = name.starts_with("select");
  std::size_t used = 0;
  std::optional<Value> attribute;
  if (by_attribute) {
    if (given.positional.empty()) fail("Missing parameter for attribute name");
    attribute = given.positional[used++];
  }
  const TextData* test = nullptr;
  if (used < given.positional.size()) test = &text_argument(given.positional[used++], name);
  if (test != nullptr && !is_test(test->bytes))
    fail(fmt::format("there is no test named {}", printable(test->bytes)));
  const Arguments rest{
      {given.positional.begin() + static_cast<std::ptrdiff_t>(used), given.positional.end()},
      given.named};
  std::vector<Value> items;
  if (!is_true(value)) return machine.arena().list({}, false, true);
  for (const Value& item : items_of(machine, value)) {
    const Value tested = attribute ? path_of(machine, item, *attribute, std::nullopt) : item;
    machine.steps().take(1);
    if ((test != nullptr ? apply_test(machine, test->bytes, tested, rest) : is_true(tested)) ==
        wanted)
      items.push_back(item);
  }
  return machine.arena().list(std::move(items), false, true);
}

Value batch_filter(Machine& machine, const Value& value, const Arguments& given,
                   std::string_view name) {
  const Bound bound = bind(given, name, {"linecount", "fill_with"});
  const std::int64_t count = bound[0] ? integer_argument(*bound[0], name) : 0;
  if (count <= 0 || count > 100'000) fail("batch() takes a positive number of items");
  std::vector<Value> batches, batch;
  const auto flush = [&] { batches.push_back(machine.arena().list(std::exchange(batch, {}))); };
  const auto add = [&](const Value& item) {
    machine.steps().take(1);
    batch.push_back(item);
  };
  for (const Value& item : items_of(machine, value)) {
    if (std::ssize(batch) == count) flush();
    add(item);
  }
  while (!batch.empty() && bound[1] && std::ssize(batch) < count) add(*bound[1]);
  if (!batch.empty()) flush();
  return machine.arena().list(std::move(batches), false, true);
}

Value groupby_filter(Machine& machine, const Value& value, const Arguments& given,
                     std::string_view name) {
  const Bound bound = bind(given, name, {"attribute", "default", "case_sensitive"});
  if (!bound[0]) fail("groupby() lacks an attribute");
  std::vector<std::pair<Value, Value>> keyed;
  for (const Value& item : items_of(machine, value)) {
    const Value key = path_of(machine, item, *bound[0], bound[1]);
    keyed.emplace_back(is_set(bound[2]) ? key : lowered(machine, key), item);
  }
  sort_by(machine, keyed, false);
  std::vector<Value> groups, group;
  for (std::size_t i = 0; i < keyed.size(); ++i) {
    group.push_back(keyed[i].second);
    const bool ends =
        i + 1 == keyed.size() || !are_equal(keyed[i].first, keyed[i + 1].first, machine.steps());
    if (ends)
      groups.push_back(machine.arena().list({path_of(machine, group[0], *bound[0], bound[1]),
                                             machine.arena().list(std::exchange(group, {}))},
                                            true));
  }
  return machine.arena().list(std::move(groups));
}

Value edge_filter(Machine& machine, const Value& value, const Arguments& given,
                  std::string_view name) {
  bind(given, name, {});
  const std::vector<Value>& items = items_of(machine, value);
  if (items.empty()) return {Undefined{"an item of an empty sequence"}};
  return name == "first" ? items.front() : items.back();
}

Value length_filter(Machine& machine, const Value& value, const Arguments& given,
                    std::string_view name) {
  bind(given, name, {});
  if (value.text() != nullptr) {
    return {static_cast<std::int64_t>(count_characters(value.text()->bytes, machine.steps()))};
  }
  if (value.list() != nullptr && !value.list()->is_generator)
    return {static_cast<std::int64_t>(value.list()->items.size())};
  if (value.dict() != nullptr && !value.dict()->is_namespace)
    return {static_cast<std::int64_t>(value.dict()->entries.size())};
  if (value.loop() != nullptr) return {static_cast<std::int64_t>(value.loop()->items->size())};
  if (value.is_undefined()) return {std::int64_t{0}};
  fail(fmt::format("object of type '{}' has no len()", value.type_name()));
}

Value list_filter(Machine& machine, const Value& value, const Arguments& given,
                  std::string_view name) {
  bind(given, name, {});
  std::vector<Value> items;
  append_items(machine, items_of(machine, value), items);
  return machine.arena().list(std::move(items));
}

Value items_filter(Machine& machine, const Value& value, const Arguments& given,
                   std::string_view name) {
  bind(given, name, {});
  if (value.is_undefined()) return machine.arena().list({}, false, true);
  if (value.dict() == nullptr || value.dict()->is_namespace)
    fail("Can only get item pairs from a mapping.");
  const std::vector<Value>& pairs = items_of(machine, call_method(machine, value, "items", {}));
  machine.steps().look(pairs.size() * sizeof(Value));
  return machine.arena().list(pairs, false, true);
}

Value reverse_filter(Machine& machine, const Value& value, const Arguments& given,
                     std::string_view name) {
  bind(given, name, {});
  std::vector<Value> items;
  append_items(machine, items_of(machine, value), items);
  std::ranges::reverse(items);
  if (value.text() == nullptr) return machine.arena().list(std::move(items), false, true);
  TextBuilder out(machine.steps());
  for (const Value& item : items) append_string(item, out);
  return machine.arena().text(out.take());
}

Value attr_filter(Machine& machine, const Value& value, const Arguments& given,
                  std::string_view name) {
  const Bound bound = bind(given, name, {"name"});
  const TextData& wanted = text_argument(bound[0], name);
  return value.dict() != nullptr && !value.dict()->is_namespace && !has_method(value, wanted.bytes)
             ? Value{Undefined{wanted.bytes}}
             : machine.attribute(value, wanted.bytes);
}

constexpr std::pair<std::string_view, Filter> kSequenceFilters[] = {
    {"attr", attr_filter},         {"batch", batch_filter},     {"count", length_filter},
    {"dictsort", dictsort_filter}, {"first", edge_filter},      {"groupby", groupby_filter},
    {"items", items_filter},       {"join", join_filter},       {"last", edge_filter},
    {"length", length_filter},     {"list", list_filter},       {"map", map_filter},
    {"max", extreme_filter},       {"min", extreme_filter},     {"reject", select_filter},
    {"rejectattr", select_filter}, {"reverse", reverse_filter}, {"select", select_filter},
    {"selectattr", select_filter}, {"sort", sort_filter},       {"sum", sum_filter},
    {"unique", unique_filter}};

Filter find_sequence_filter(std::string_view name) {
  const auto* found =
      std::ranges::find(kSequenceFilters, name, &std::pair<std::string_view, Filter>::first);
  return found != std::end(kSequenceFilters) ? found->second : nullptr;
}

}  // namespace

bool is_filter(std::string_view name) {
  return find_sequence_filter(name) != nullptr || find_value_filter(name) != nullptr;
}

Value apply_filter(Machine& machine, std::string_view name, const Value& value,
                   const Arguments& arguments) {
  Filter filter = find_sequence_filter(name);
  if (filter == nullptr) filter = find_value_filter(name);
  if (filter == nullptr) fail(fmt::format("there is no filter named '{}'", name));
  return filter(machine, value, arguments, name);
}

}  // namespace outrider::jinja
