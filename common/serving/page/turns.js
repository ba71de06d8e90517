// SPDX-License-Identifier: Apache-2.0
// The conversation as it is shown: a turn for each message.

function turn(role, speaker) {
  const node = element('article', {className: 'turn ' + role}, element('h2', {}, speaker));
  at('talk').append(node);
  return node;
}

// Keeps the end in view while something is added, unless the reader has left it.
function following(act) {
  const talk = at('talk');
  const isAtEnd = talk.scrollHeight - talk.scrollTop - talk.clientHeight < 60;
  act();
  if (isAtEnd) talk.scrollTop = talk.scrollHeight;
}

function showText(role, speaker, text) {
  following(() => turn(role, speaker).append(element('p', {className: 'as-is'}, text)));
}

function showFailure(text) {
  const node = element('p', {className: 'failed'}, text);
  node.setAttribute('role', 'alert');
  following(() => at('talk').append(node));
}

// Draws at most once a frame, and so seldom that drawing takes at most a fifth of the time.
class Pace {
  #timer = 0;
  #next = 0;

  constructor(draw) { this.draw = draw; }

  soon() {
    this.#timer ||= setTimeout(() => {
      this.#timer = 0;
      const begin = performance.now();
      this.draw();
      this.#next = begin + Math.max(16, 5 * (performance.now() - begin));
    }, Math.max(0, this.#next - performance.now()));
  }

  now() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.draw();
  }
}

// An answer while it comes, and afterwards. Screen readers get it when it is whole.
class AnswerView {
  #said = '';     // what is not drawn yet: text,
  #thought = '';  // reasoning,
  #called = [];   // and parts of calls
  #pace = new Pace(() => following(() => this.#draw()));
  #calls = [];

  // answer: as generate() fills it; null for one that is kept from earlier.
  constructor(answer = null) {
    this.answer = answer;
    this.node = turn('assistant', 'Answer');
    this.node.ariaLive = 'polite';
    this.node.ariaBusy = 'true';
    this.thoughts = document.createTextNode('');
    this.reasoning = element('details', {className: 'reasoning', open: true, hidden: true},
                             element('summary', {}, 'Reasoning'), element('p', {className: 'as-is'}, this.thoughts));
    this.text = element('div', {className: 'text'});
    this.markdown = new MarkdownView(this.text);
    this.calls = element('div');
    this.node.append(this.reasoning, this.text, this.calls);
  }

  add({content, reasoning_content: thought, tool_calls: calls}) {
    this.#said += content || '';
    this.#thought += thought || '';
    this.#called.push(...calls || []);
    this.#pace.soon();
  }

  #draw() {
    this.reasoning.hidden &&= !this.#thought;
    this.thoughts.appendData(this.#thought);
    this.markdown.write(this.#said);
    for (const call of this.#called) this.#addCall(call);
    [this.#said, this.#thought, this.#called] = ['', '', []];
    if (this.answer && this.answer.marks.length) this.#drawTimes(this.answer);
  }

  #addCall({index, function: part}) {
    const call = this.#calls[index] ||= this.#newCall();
    call.name.append(part.name || '');
    call.given.appendData(part.arguments || '');
  }

  #newCall() {
    const call = {name: element('code'), given: document.createTextNode('')};
    this.calls.append(element('section', {className: 'call'}, element('h3', {}, 'Calls ', call.name),
                              element('pre', {tabIndex: 0}, element('code', {}, call.given))));
    return call;
  }

  end() {
    this.#pace.now();
    following(() => this.markdown.end());
    if (this.text.firstChild) this.reasoning.open = false;
    this.node.ariaBusy = 'false';
  }

  // Adds a line of figures below the answer, and its seed.
  describe(figures, seed, useSeed) {
    const line = element('p', {className: 'figures'}, ...figures.map(text => element('span', {}, text)));
    if (seed) line.append(element('span', {}, 'seed ' + seed), button('Use this seed', useSeed, {className: 'small'}));
    if (line.firstChild) following(() => this.node.append(line));
  }

  // The answer's tokens, by where they come from, in place of the text, and back.
  toggleTokens(tokens) {
    const shown = this.node.querySelector('.tokens');
    this.text.hidden = !shown;
    if (shown) return shown.remove();
    const legend = element('p', {className: 'legend'}, element('span', {className: 'guess'}, 'guessed here, confirmed'),
                           ' · ', element('span', {className: 'own'}, 'the target\'s own'));
    const spans = tokens.map(token => element('span', {className: token.drafted ? 'guess' : 'own'}, token.text));
    this.text.after(element('div', {className: 'tokens'}, legend, element('p', {className: 'as-is'}, ...spans)));
  }

  // When the tokens came: a bar for each of the last arrivals, as high as it has tokens.
  #drawTimes({begin, marks}) {
    const {svg, bars} = this.times ||= this.#newTimes();
    const width = svg.clientWidth || 300;
    const whole = Math.max(marks.at(-1).when - begin, 1);
    svg.setAttribute('viewBox', `0 0 ${width} 28`);
    bars.replaceChildren(...marks.slice(-1000).map(mark => {
      const height = Math.min(4 + 5 * mark.tokens, 28);
      const bar = document.createElementNS('http://www.w3.org/2000/svg', 'rect');
      const places = {x: (mark.when - begin) / whole * (width - 3), y: 28 - height, width: 2, height};
      for (const [name, value] of Object.entries(places)) bar.setAttribute(name, String(value));
      bar.setAttribute('class', mark.tokens > 1 ? 'several' : 'one');
      return bar;
    }));
  }

  #newTimes() {
    const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    const bars = document.createElementNS('http://www.w3.org/2000/svg', 'g');
    svg.setAttribute('role', 'img');
    svg.setAttribute('aria-label', 'When the tokens of this answer came');
    svg.setAttribute('class', 'times');
    svg.append(bars);
    this.node.append(svg);
    return {svg, bars};
  }
}

// A field for the result of each call, to be typed.
function resultsForm(calls, send) {
  const results = calls.map(call => element('textarea', {rows: 2, required: true, name: call.id}));
  const form = element('form', {className: 'results'},
    ...calls.map((call, index) => element('label', {}, `Result of ${call.function.name}`, results[index])),
    element('button', {type: 'submit'}, calls.length > 1 ? 'Send the results' : 'Send the result'));
  form.addEventListener('submit', event => {
    event.preventDefault();
    send(calls.map((call, index) => ({role: 'tool', tool_call_id: call.id, content: results[index].value})));
  });
  return form;
}
