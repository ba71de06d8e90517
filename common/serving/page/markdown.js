// SPDX-License-Identifier: Apache-2.0

// Shows Markdown in a place while it comes. Blocks that are over keep their nodes, and only the last one is drawn again,
// which is never long: so the time is linear in the text, whatever the text is.
class MarkdownView {
  static #LONGEST = 20000;  // characters of a block but code; a longer one ends there

  #place;
  #rest = '';   // the text whose blocks may still change
  #nodes = [];  // what shows it
  #code = null;
  #fence = '';  // what began the code

  constructor(place) { this.#place = place; }

  write(text) { this.#draw(text, false); }
  end() { this.#draw('', true); }

  #draw(text, isOver) {
    this.#rest += text;
    for (const node of this.#nodes.splice(0)) node.remove();
    while (this.#rest && (this.#code ? this.#settleCode(isOver) : this.#settleBlocks(isOver))) { /* further */ }
    if (!this.#rest || this.#code) return;
    this.#nodes = nodesOf(linesOf(this.#rest));
    this.#place.append(...this.#nodes);
  }

  // Draws the blocks that nothing can change any more; false if there is none.
  #settleBlocks(isOver) {
    const isWhole = isOver && this.#rest.length <= MarkdownView.#LONGEST;
    const window = this.#rest.slice(0, MarkdownView.#LONGEST);
    const lengths = window.split('\n').map(line => line.length + 1);
    const lines = linesOf(window);
    if (!isWhole) lines.pop();  // it is not over yet
    let read = 0;
    for (const block of blocksOf(lines)) {
      if (block.kind === 'fence') {
        this.#begin(block.lines[0]);
        this.#rest = this.#rest.slice(read + lengths[block.from]);
        return true;
      }
      const length = lengths.slice(block.from, block.end).reduce((sum, each) => sum + each, 0);
      const isOpen = block.end === lines.length && !['heading', 'rule', 'blank'].includes(block.kind);
      if (isOpen && !isWhole) break;
      if (block.kind !== 'blank') this.#place.append(nodeOf(block, 0));
      read += length;
    }
    if (read === 0 && this.#rest.length > window.length) read = this.#cut(window);
    this.#rest = this.#rest.slice(read);
    return read > 0;
  }

  // Ends a block that is too long: at the end of a line if it has one, and never within a character of two halves.
  #cut(window) {
    let end = window.lastIndexOf('\n') + 1 || window.length;
    if (/[\uD800-\uDBFF]/.test(window[end - 1])) --end;
    this.#place.append(...nodesOf(linesOf(window.slice(0, end))));
    return end;
  }

  #begin(line) {
    const [, fence, info] = FENCE.exec(line);
    this.#fence = fence;
    this.#code = new CodeBlock(info);
    this.#place.append(this.#code.node);
  }

  // Adds the lines that are over; false if the code may go on.
  #settleCode(isOver) {
    let from = 0;
    for (let end; (end = this.#rest.indexOf('\n', from)) >= 0; from = end + 1) {
      if (closes(this.#rest.slice(from, end), this.#fence)) return this.#endCode(from, end + 1);
    }
    const line = this.#rest.slice(from);
    if (isOver && closes(line, this.#fence)) return this.#endCode(from, this.#rest.length);
    const isLong = isOver || line.length > MarkdownView.#LONGEST;
    this.#code.preview.data = '';
    this.#code.add(isLong ? this.#rest : this.#rest.slice(0, from));
    this.#rest = isLong ? '' : line;
    // Marks that may become the closing fence are not shown yet.
    if (!/^ {0,3}[`~]*$/.test(this.#rest)) this.#code.preview.data = this.#rest;
    return false;
  }

  #endCode(end, next) {
    this.#code.preview.data = '';
    this.#code.add(this.#rest.slice(0, end));
    this.#code = null;
    this.#rest = this.#rest.slice(next);
    return true;
  }
}
