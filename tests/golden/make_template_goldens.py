#!/usr/bin/env python3
"""Renders small templates with Python's jinja2, as transformers sets it up, for common/serving/conversation/jinja.

  tests/golden/make_template_goldens.py     writes templates/templates.json

Needs jinja2 (3.1). compare_templates.py does the same for whole templates of others.
SPDX-License-Identifier: Apache-2.0
"""
import datetime
import json
from pathlib import Path

import jinja2
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = Path(__file__).resolve().parent
NOW = 1700000000
TRUSTED = {'bos_token': '<s>', 'eos_token': '</s>', 'unk_token': '<unk>', 'pad_token': '<pad>'}
CONTEXT = {
    'name': 'Ada', 'empty': '', 'number': 7, 'real': 1.5, 'big': 1e22, 'yes': True, 'no': False, 'nothing': None,
    'words': ['b', 'a', 'C', 'a'], 'numbers': [3, 1, 2], 'text': '  two words\n', 'accents': 'Ünï😀', 'quote': 'it\'s "x" & <y>',
    'map': {'z': 1, 'a': [1, 'é'], 'items': 2}, 'people': [{'n': 'x', 'age': 3}, {'n': 'y'}, {'n': 'x', 'age': 1}],
    'lines': 'one\n\ntwo\r\nthree', 'nested': {'a': {'b': [10, 20]}},
}
SNIPPETS = r'''
a{{ name }}b
{{ nothing }}|{{ yes }}|{{ no }}|{{ number }}|{{ real }}|{{ big }}|{{ 0.1 + 0.2 }}|{{ 1e-5 }}|{{ 1e16 }}|{{ 100.0 }}
{{ words }}|{{ map }}|{{ (1,) }}|{{ () }}|{{ [quote, text] }}
{{ missing }}|{{ missing is defined }}|{{ missing | default('d') }}|{{ empty | default('d', true) }}
{{ missing.attribute }}
{{ missing + 'x' }}
{{ missing() }}
{{ map.missing is undefined }}|{{ map.z }}|{{ map['z'] }}|{{ map.items is callable }}
{{ map.items() | list }}|{{ map | items | list }}|{{ map | dictsort }}
{{ map.get('z') }}|{{ map.get('q', 5) }}|{{ map.get('q') }}|{{ map.keys() | list }}|{{ map.values() | list }}
{% if name == 'Ada' and not no or yes %}T{% elif true %}E{% else %}F{% endif %}
{% for w in words %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ w }},{% endfor %}
{% for w in words if w != 'a' %}{{ loop.index }}{{ w }}{{ loop.previtem }}{{ loop.nextitem }};{% else %}none{% endfor %}
{% for w in [] %}x{% else %}none{% endfor %}
{% for a, b in map.items() %}{{ a }}={{ b }};{% endfor %}
{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i > 4 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% for i in [1, [2, [3]]] recursive %}{{ loop.depth }}{% if i is iterable %}{{ loop(i) }}{% else %}{{ i }}{% endif %}{% endfor %}
{% for i in range(3) %}{{ loop.cycle('a', 'b') }}{{ loop.changed(i // 2) }}{% endfor %}
{% set x = 1 %}{% for i in range(2) %}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}
{% set ns = namespace(x=1) %}{% for i in range(3) %}{% set ns.x = ns.x * 2 %}{% endfor %}{{ ns.x }}
{% set a, b = [1, 2] %}{{ a }}{{ b }}
{% set block %}in {{ name }}{% endset %}[{{ block }}]
{% set block | upper | trim %} in {{ name }} {% endset %}[{{ block }}]
{% macro hi(who, greeting='Hello') %}{{ greeting }}, {{ who }}{% if varargs %}{{ varargs }}{% endif %}{% if kwargs %}{{ kwargs }}{% endif %}!{% endmacro %}{{ hi('you') }}{{ hi('me', greeting='Yo') }}{{ hi(1, 2, 3, x=4) }}
{% macro wrap(t) %}<{{ t }}>{{ caller('c') }}</{{ t }}>{% endmacro %}{% call(x) wrap('b') %}in{{ x }}{% endcall %}
{% filter upper %}shout {{ name }}{% endfilter %}
{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}
{% generation %}said{% endgeneration %}
{# a comment #}x{#- another -#} y
{% raw %}{{ not }} {% this %}{% endraw %}
  {% if yes %}
  lstrip
  {% endif %}
after
  {%- if yes -%}
  strip
  {%- endif -%}
after
  {%+ if yes %}  plus{% endif +%}
after
{{- name -}} x
a {%- set y = 1 %} b
{{ 7 // 2 }}|{{ -7 // 2 }}|{{ -7 % 3 }}|{{ 7 / 2 }}|{{ 2 ** 10 }}|{{ -2 ** 2 }}|{{ 7 % 2.5 }}|{{ 1 + 2 * 3 }}|{{ (1 + 2) * 3 }}
{{ 1 / 0 }}
{{ 'a' ~ 1 ~ none ~ [1] }}|{{ 'a' + 'b' }}|{{ 'ab' * 3 }}|{{ [1] + [2] }}|{{ [0] * 3 }}
{{ 'a' + 1 }}
{{ 1 < 2 <= 2 }}|{{ 1 == 1.0 }}|{{ 'a' < 'b' }}|{{ [1, 2] < [1, 3] }}|{{ none == none }}|{{ true == 1 }}
{{ 1 < 'a' }}
{{ 'a' in 'cat' }}|{{ 'z' not in 'cat' }}|{{ 'z' in map }}|{{ 2 in numbers }}|{{ 2 in missing }}
{{ none in 'x' }}
{{ 'x' if yes }}|{{ 'x' if no }}|{{ 'x' if no else 'y' }}
{{ yes and 'r' }}|{{ no or 'r' }}|{{ '' or 0 or 'last' }}|{{ not '' }}
{{ accents[0] }}|{{ accents[-1] }}|{{ accents[1:3] }}|{{ accents[::-1] }}|{{ numbers[-2:] }}|{{ numbers[::2] }}|{{ accents | length }}
{{ numbers[9] is defined }}|{{ 'abc'[9] is defined }}|{{ nested.a.b.1 }}|{{ nested['a']['b'][0] }}
{{ text.strip() }}|{{ text | trim }}|{{ 'xxaxx'.strip('x') }}|{{ 'xxa'.lstrip('x') }}|{{ 'axx'.rstrip('x') }}|
{{ 'a,b,,c'.split(',') }}|{{ ' a  b '.split() }}|{{ 'a,b,c'.split(',', 1) }}|{{ 'a,b,c'.rsplit(',', 1) }}|{{ lines.splitlines() }}
{{ 'a' .join(['x', 'y']) }}|{{ words | join('-') }}|{{ [1, none] | join }}|{{ people | join(',', attribute='n') }}
{{ 'abc'.startswith('a') }}|{{ 'abc'.endswith(('x', 'c')) }}|{{ 'abcabc'.find('c') }}|{{ 'abcabc'.rfind('c') }}|{{ 'aXa'.count('a') }}
{{ 'aaa'.replace('a', 'b', 2) }}|{{ 'aaa' | replace('a', 'b') }}|{{ 'prefix-x'.removeprefix('prefix-') }}|{{ 'x.y.z'.partition('.') }}
{{ name.upper() }}|{{ accents | lower }}|{{ accents | upper }}|{{ 'hello world' | title }}|{{ 'hELLO' | capitalize }}|{{ 'straße' | upper }}
{{ '{} and {}'.format(1, 'x') }}|{{ '{0}{1}{0}'.format('a', 'b') }}|{{ '{x}'.format(x=3) }}|{{ '{:03d}'.format(7) }}|{{ '{:.2f}'.format(3.14159) }}|{{ '{{}}'.format() }}
{{ '%s is %d' % ('x', 3) }}|{{ '%.1f' % 2.25 }}|{{ '%s' % name }}|{{ '%03d' % 5 }}|{{ '100%%' % () }}
{{ map | tojson }}|{{ accents | tojson }}|{{ accents | tojson(ensure_ascii=true) }}|{{ [] | tojson }}|{{ nothing | tojson }}|{{ real | tojson }}|{{ quote | tojson }}
{{ map | tojson(indent=2) }}|{{ {} | tojson(indent=2) }}|{{ map | tojson(separators=(',', ':'), sort_keys=true) }}
{{ missing | tojson }}
{{ words | sort }}|{{ words | sort(case_sensitive=true) }}|{{ numbers | sort(reverse=true) }}|{{ people | sort(attribute='n') | map(attribute='n') | list }}
{{ words | unique | list }}|{{ words | first }}|{{ words | last }}|{{ [] | first is defined }}|{{ numbers | max }}|{{ numbers | min }}|{{ numbers | sum }}
{{ words | map('upper') | list }}|{{ people | map(attribute='age', default=0) | list }}|{{ people | selectattr('age') | list | length }}
{{ people | selectattr('n', 'equalto', 'x') | list }}|{{ people | rejectattr('age', 'defined') | list }}|{{ numbers | select('odd') | list }}|{{ numbers | reject('>', 1) | list }}
{{ nothing | selectattr('x') | list }}|{{ (nothing | map(attribute='x') | list) }}
{{ 'T' if words | select('equalto', 'zzz') else 'F' }}|{{ 'abc' | list }}|{{ 'abc' | reverse }}|{{ numbers | reverse | list }}
{{ words | map('upper') | length }}
{{ '3' | int }}|{{ 'x' | int }}|{{ 'x' | int(9) }}|{{ 3.9 | int }}|{{ '2.5' | float }}|{{ 2.5 | round }}|{{ 2.567 | round(2) }}|{{ -3 | abs }}
{{ lines | indent }}|{{ lines | indent(2, true) }}|{{ lines | indent('> ', blank=true) }}
{{ 'a b c' | wordcount }}|{{ 'foo bar baz qux' | truncate(9) }}|{{ 'foo bar baz qux' | truncate(9, true) }}|{{ 'x' | center(5) }}|
{{ numbers | batch(2) | list }}|{{ numbers | batch(2, 0) | list }}|{{ people | groupby('n') | list }}
{{ quote | e }}|{{ quote | safe }}|{{ ('a'|safe) + quote }}|{{ ('<b>'|safe) ~ quote }}|{{ quote | string }}
{{ number is number }}|{{ name is string }}|{{ map is mapping }}|{{ words is sequence }}|{{ words is iterable }}|{{ nothing is none }}|{{ yes is boolean }}|{{ yes is true }}|{{ no is false }}|{{ 3 is odd }}|{{ 4 is even }}|{{ 6 is divisibleby 3 }}|{{ real is float }}|{{ number is integer }}|{{ 'x' is in 'xy' }}|{{ number is eq 7 }}|{{ name is not string }}
{{ missing is string }}|{{ missing is iterable }}|{{ missing is mapping }}|{{ missing is none }}|{{ missing is sequence }}
{{ strftime_now('%d %B %Y') }}|{{ range(2, 9, 3) | list }}|{{ dict(a=1) }}
{{ raise_exception('refused') }}
{{ words.append('x') }}
{{ map.update({}) }}
{{ name | nosuchfilter }}
{% if no %}{{ name | nosuchfilter }}{% endif %}fine
{{ name is nosuchtest }}
{{ ''.__class__ }}
{{ name.__class__.__mro__ }}
{{ bos_token + name + eos_token }}
{{ "\n\t\\\x41\u00e9\'" }}|{{ 'two ' 'parts' }}|{{ 'line \
on' }}
{{ {'a': 1, 'b': {'c': 2}}.b.c }}|{{ {'a': 1} | length }}|{{ [[1, 2], [3]] | sum(start=[]) if no }}
{% set j = joiner('; ') %}{{ j() }}a{{ j() }}b{{ j() }}c
{{ name
{% if yes %}
{% endif %}
{% unknown %}
{{ 1 + }}
{{ words | first | upper | length + 1 }}|{{ -numbers | first if no }}|{{ (numbers | first) - 1 }}|{{ not words | length == 3 }}
{{ 5 is divisibleby(5) and name is defined }}|{{ name == 'Ada' is sameas true }}
'''


class Generation(Extension):
    """{% generation %}: printed as it is."""
    tags = {'generation'}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(['name:endgeneration'], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method('_said'), [], [], body).set_lineno(line)

    def _said(self, caller):
        return caller()


def refuse(message):
    raise jinja2.exceptions.TemplateError(message)


def environment():
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, 'jinja2.ext.loopcontrols'])
    made.filters['tojson'] = lambda value, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    now = datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc)
    made.globals.update(raise_exception=refuse, strftime_now=now.strftime)
    return made


def rendered(source, context):
    """The text, or None where jinja2 raises."""
    try:
        return environment().from_string(source).render(**json.loads(json.dumps(context)), **TRUSTED)
    except Exception:  # pylint: disable=broad-except
        return None


def snippets():
    """A snippet a line; those that begin or end in blanks or hold line breaks are joined by hand below."""
    lines = SNIPPETS.strip('\n').split('\n')
    several = ['  {% if yes %}\n  lstrip\n  {% endif %}\nafter', '  {%- if yes -%}\n  strip\n  {%- endif -%}\nafter',
               '  {%+ if yes %}  plus{% endif +%}\nafter', '{% if yes %}\n{% endif %}\n\n', "{{ 'line \\\non' }}",
               'a\n  {# c #}\nb\n', '{% raw %}\n x\n{%- endraw %}\ny', 'x\r\ny\rz\n', '{% for i in [1,2] -%}\n {{ i }}\n{%- endfor %}\n!']
    return [line for line in lines if line.strip()] + several


def write():
    cases = [{'template': source, 'text': rendered(source, CONTEXT)} for source in snippets()]
    lines = ',\n'.join(json.dumps(case, ensure_ascii=False) for case in cases)
    with open(HERE / 'templates/templates.json', 'w', encoding='utf-8') as out:
        out.write(f'{{"made_by": "jinja2 {jinja2.__version__}", "now": {NOW},\n"trusted": {json.dumps(TRUSTED)},\n'
                  f'"context": {json.dumps(CONTEXT, ensure_ascii=False)},\n"cases": [\n{lines}\n]}}\n')


if __name__ == '__main__':
    write()
