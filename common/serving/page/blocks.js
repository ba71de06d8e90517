// SPDX-License-Identifier: Apache-2.0
// Blocks of Markdown as a model writes it: headings, lists, quotes, tables, fenced code, paragraphs. Raw HTML is text.

const DEEPEST = 8;  // quotes and lists within each other; what is deeper stays text
const FENCE = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?=[ \t]|$)/;
const RULE = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?=[ \t]|$)/;

// The lines of a text, with spaces in place of the tabs that indent them.
const linesOf = text => text.split('\n').map(line => line.replace(/^[ \t]+/, lead => lead.replaceAll('\t', '    ')));
const indentOf = line => line.length - line.trimStart().length;
const isBlank = line => line.trim() === '';
const isItem = line => ITEM.test(line) && !RULE.test(line);

function isDivider(line = '') {
  return /^[\s|:-]+$/.test(line) && line.includes('|') && cellsOf(line).every(cell => /^:?-+:?$/.test(cell));
}

// The kind of block that the line begins, seen from outside of a block.
function kindAt(lines, at) {
  const line = lines[at];
  if (isBlank(line)) return 'blank';
  if (FENCE.test(line)) return 'fence';
  if (HEADING.test(line)) return 'heading';
  if (RULE.test(line)) return 'rule';
  if (QUOTE.test(line)) return 'quote';
  if (ITEM.test(line)) return 'list';
  return line.includes('|') && isDivider(lines[at + 1]) ? 'table' : 'text';
}

// Whether the line ends the code that this fence began.
function closes(line, fence) {
  const text = line.trim();
  return text.length >= fence.length && indentOf(line) < 4 && text === fence[0].repeat(text.length);
}

// The end of a list: its items, what is indented below them, and blank lines between those.
function endOfList(lines, from) {
  const [, lead, mark] = ITEM.exec(lines[from]);
  const ordered = /\d/.test(mark);
  const belongs = line => {
    const indent = indentOf(line) - lead.length;
    if (indent >= 2) return true;
    return isItem(line) && /\d/.test(ITEM.exec(line)[2]) === ordered && indent > -2;
  };
  let at = from + 1;
  while (at < lines.length) {
    let next = at;
    while (next < lines.length && isBlank(lines[next])) ++next;
    if (next < lines.length && !belongs(lines[next])) return at;
    at = next + (next < lines.length ? 1 : 0);
  }
  return at;
}

// The index behind the block's last line. It is lines.length where more lines may belong to it, except after the kinds of
// one line.
function endOfBlock(kind, lines, from) {
  if (kind === 'list') return endOfList(lines, from);
  let at = from + 1;
  if (kind === 'quote') while (at < lines.length && QUOTE.test(lines[at])) ++at;
  if (kind === 'table') while (at < lines.length && lines[at].includes('|')) ++at;
  if (kind === 'text') while (at < lines.length && kindAt(lines, at) === 'text') ++at;
  if (kind === 'fence') {
    const fence = FENCE.exec(lines[from])[1];
    while (at < lines.length && !closes(lines[at], fence)) ++at;
    at = Math.min(at + 1, lines.length);
  }
  return at;
}

function blocksOf(lines) {
  const blocks = [];
  for (let from = 0, end; from < lines.length; from = end) {
    const kind = kindAt(lines, from);
    end = endOfBlock(kind, lines, from);
    blocks.push({kind, from, end, lines: lines.slice(from, end)});
  }
  return blocks;
}

// Code with its language and a button that copies it. Long code is in several parts, so that the browser need not lay
// out all of it when a line comes.
class CodeBlock {
  static #PART = 20000;

  constructor(info) {
    const language = info.trim().split(/\s/)[0].slice(0, 30);
    this.text = '';
    this.preview = document.createTextNode('');  // a line that is not over
    this.pre = element('pre', {tabIndex: 0, ariaLabel: language ? 'Code in ' + language : 'Code'});
    this.pre.setAttribute('role', 'region');
    const copy = button('Copy', () => copyText(this.text.replace(/\n$/, ''), copy));
    this.node = element('div', {className: 'code'},
                        element('div', {className: 'code-head'}, element('span', {}, language), copy), this.pre);
    this.#begin();
  }

  #begin() {
    this.part = document.createTextNode('');
    this.pre.append(element('code', {}, this.part, this.preview));
  }

  add(text) {
    for (let from = 0; from < text.length; from += CodeBlock.#PART) {
      if (this.part.length > CodeBlock.#PART && this.text.endsWith('\n')) this.#begin();
      const part = text.slice(from, from + CodeBlock.#PART);
      this.part.appendData(part);
      this.text += part;
    }
  }
}

function headingOf(line) {
  const [, marks] = HEADING.exec(line);
  let text = line.trim().slice(marks.length).trim();
  let end = text.length;
  while (text[end - 1] === '#') --end;
  if (end === 0 || /\s/.test(text[end - 1])) text = text.slice(0, end).trim();  // marks at the end belong to no word
  return element('h' + Math.min(marks.length + 2, 6), {}, spansOf(text));  // below the page's own
}

function listOf(lines, depth) {
  const [, lead, mark] = ITEM.exec(lines[0]);
  const list = /\d/.test(mark) ? element('ol', {start: parseInt(mark, 10)}) : element('ul');
  let item = [], width = 0;
  const finish = () => { if (item.length) list.append(element('li', {}, ...nodesOf(item, depth + 1))); };
  for (const line of lines) {
    if (isItem(line) && indentOf(line) - lead.length < 2) {
      finish();
      width = ITEM.exec(line)[0].length + 1;
      item = [line.slice(width)];
    } else {
      item.push(line.slice(Math.min(indentOf(line), width)));
    }
  }
  finish();
  return list;
}

function cellsOf(line) {
  const text = line.trim().replace(/^\|/, '').replaceAll('\\|', '\0');
  const cells = text.split('|');
  if (cells.length > 1 && isBlank(cells.at(-1))) cells.pop();
  return cells.map(cell => cell.trim().replaceAll('\0', '|'));
}

function tableOf(lines) {
  const sides = cellsOf(lines[1]).map(cell => cell.endsWith(':') ? (cell.startsWith(':') ? 'center' : 'right') : '');
  const row = (line, tag) => element('tr', {}, ...cellsOf(line).map((text, column) => {
    const cell = element(tag, tag === 'th' ? {scope: 'col'} : {}, spansOf(text));
    cell.style.textAlign = sides[column] || '';
    return cell;
  }));
  const table = element('table', {}, element('thead', {}, row(lines[0], 'th')),
                        element('tbody', {}, ...lines.slice(2).map(line => row(line, 'td'))));
  const frame = element('div', {className: 'wide', tabIndex: 0, ariaLabel: 'Table'}, table);
  frame.setAttribute('role', 'region');
  return frame;
}

function codeOf(lines) {
  const [, fence, info] = FENCE.exec(lines[0]);
  const isClosed = lines.length > 1 && closes(lines.at(-1), fence);
  const code = new CodeBlock(info);
  code.add(lines.slice(1, isClosed ? -1 : lines.length).join('\n'));
  return code.node;
}

function nodeOf({kind, lines}, depth) {
  switch (kind) {
    case 'fence': return codeOf(lines);
    case 'heading': return headingOf(lines[0]);
    case 'rule': return element('hr');
    case 'quote': {
      const within = lines.map(line => line.replace(QUOTE, ''));
      return element('blockquote', {}, ...nodesOf(within, depth + 1));
    }
    case 'list': return listOf(lines, depth);
    case 'table': return tableOf(lines);
    default: return element('p', {}, spansOf(lines.map(line => line.trim()).join('\n')));
  }
}

function nodesOf(lines, depth = 0) {
  if (depth > DEEPEST) return [element('p', {className: 'as-is'}, lines.join('\n'))];
  return blocksOf(lines).filter(block => block.kind !== 'blank').map(block => nodeOf(block, depth));
}
