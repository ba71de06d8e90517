// SPDX-License-Identifier: Apache-2.0
// What stands within a paragraph of Markdown: emphasis, code, links. The time is linear in the text for any text; runs of
// marks and nestings that no writer means stay text.

const MOST_OPEN = 40;   // marks of emphasis that wait for their end
const LONGEST_RUN = 3;  // of equal marks
const SPECIAL = /!?\[|[\\`*_~<\n]|https?:\/\//g;
const LINK = /\[((?:[^[\]\\]|\\.){1,1000})\]\([ \t]*([^\s()<>]{1,2000}(?:\([^\s()<>]{0,200}\)[^\s()<>]{0,2000})?)(?:[ \t]+"[^"\n]{0,300}")?[ \t]*\)/y;
const BRACKETED_ADDRESS = /<(https?:\/\/[^\s<>]{1,2000})>/y;
const BARE_ADDRESS = /https?:\/\/[^\s<>"`]{1,2000}/y;
const ESCAPABLE = /[!-/:-@[-`{-~]/;

function matchAt(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

// Null for what is no address of the web: javascript:, data: and the like stay text.
function linkTo(address, label) {
  let url;
  try { url = new URL(address); } catch { return null; }
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return null;
  return element('a', {href: url.href, target: '_blank', rel: 'noopener noreferrer'}, label);
}

function addressAt(text, at) {
  let [address] = matchAt(BARE_ADDRESS, text, at) || [''];
  const closers = address.includes('(') ? '.,;:!?*_~\'' : '.,;:!?*_~\')';
  while (closers.includes(address.at(-1))) address = address.slice(0, -1);
  const node = address && linkTo(address, address);
  return node ? {length: address.length, node} : null;
}

// A picture is a link to it: the page loads nothing from elsewhere.
function linkAt(text, at) {
  const begin = text[at] === '!' ? 1 : 0;
  const found = matchAt(LINK, text, at + begin);
  const node = found && linkTo(found[2], found[1].replace(/\\(.)/g, '$1'));
  return node ? {length: begin + found[0].length, node} : null;
}

// unclosed: the lengths of runs of backticks that no later run closes.
function codeAt(text, at, unclosed) {
  const [ticks] = matchAt(/`+/y, text, at);
  const {length} = ticks;
  if (!unclosed.has(length)) {
    const runs = /`+/g;
    runs.lastIndex = at + length;
    for (let run; (run = runs.exec(text));) {
      if (run[0].length !== length) continue;
      let code = text.slice(at + length, run.index).replaceAll('\n', ' ');
      if (code.startsWith(' ') && code.endsWith(' ') && code.trim()) code = code.slice(1, -1);
      return {length: run.index + length - at, node: element('code', {}, code)};
    }
    unclosed.add(length);
  }
  return {length, text: ticks};
}

// Whether a run of marks may begin emphasis or end it, by what stands on its sides.
function runAt(text, at) {
  const mark = text[at];
  const [run] = matchAt(/\*+|_+|~+/y, text, at);
  const {length} = run;
  if (length > LONGEST_RUN || (mark === '~' && length !== 2)) return {length, text: run};
  const before = text[at - 1] || ' ', after = text[at + length] || ' ';
  const space = c => /\s/.test(c), sign = c => /[\p{P}\p{S}]/u.test(c);
  const left = !space(after) && (!sign(after) || space(before) || sign(before));
  const right = !space(before) && (!sign(before) || space(after) || sign(after));
  const within = mark === '_';  // snake_case is no emphasis
  return {length, mark, left: length, starts: [], ends: [],
          opens: left && (!within || !right || sign(before)),
          closes: right && (!within || !left || sign(after))};
}

function pieceAt(text, at, found, unclosed) {
  switch (found) {
    case '\\':
      if (text[at + 1] === '\n') return {length: 2, node: element('br')};
      return ESCAPABLE.test(text[at + 1] || ' ') ? {length: 2, text: text[at + 1]} : null;
    case '\n': return {length: 1, node: element('br')};
    case '`': return codeAt(text, at, unclosed);
    case '[': case '![': return linkAt(text, at);
    case '<': {
      const bracketed = matchAt(BRACKETED_ADDRESS, text, at);
      const node = bracketed && linkTo(bracketed[1], bracketed[1]);
      return node ? {length: bracketed[0].length, node} : null;
    }
    case '*': case '_': case '~': return runAt(text, at);
    default: return addressAt(text, at);
  }
}

function piecesOf(text) {
  const pieces = [], unclosed = new Set();
  let from = 0, at = 0;
  for (let found; (found = matchAt(SPECIAL, text, at));) {
    at = found.index;
    const piece = pieceAt(text, at, found[0], unclosed);
    if (!piece) {
      at += found[0].length;
      continue;
    }
    if (from < at) pieces.push({text: text.slice(from, at)});
    pieces.push(piece);
    from = at += piece.length;
  }
  if (from < text.length) pieces.push({text: text.slice(from)});
  return pieces;
}

// Gives each run of marks the elements that end and begin there, the innermost first to end and last to begin.
function pairEmphasis(pieces) {
  const open = [];
  for (const run of pieces.filter(piece => piece.mark)) {
    while (run.closes && run.left > 0) {
      const place = open.findLastIndex(opener => opener.mark === run.mark);
      if (place < 0) break;
      const opener = open[place], size = Math.min(2, opener.left, run.left);
      const tag = run.mark === '~' ? 'del' : size === 2 ? 'strong' : 'em';
      opener.starts.unshift(tag);
      run.ends.push(tag);
      opener.left -= size;
      run.left -= size;
      open.length = place + (opener.left > 0 ? 1 : 0);  // what was open within stays text
    }
    if (run.opens && run.left > 0 && open.length < MOST_OPEN) open.push(run);
  }
}

// The nodes of a paragraph's text.
function spansOf(text) {
  const pieces = piecesOf(text);
  pairEmphasis(pieces);
  const open = [document.createDocumentFragment()];
  for (const piece of pieces) {
    if (!piece.mark) {
      open.at(-1).append(piece.node || piece.text);
      continue;
    }
    for (const _ of piece.ends) open.pop();
    open.at(-1).append(piece.mark.repeat(piece.left));
    for (const tag of piece.starts) {
      const node = element(tag);
      open.at(-1).append(node);
      open.push(node);
    }
  }
  return open[0];
}
