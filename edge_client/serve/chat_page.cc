// SPDX-License-Identifier: Apache-2.0
#include "edge_client/serve/chat_page.h"

namespace outrider {
namespace {

constexpr std::string_view kPage = R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Outrider</title>
<link rel="icon" href="data:,">
<style>
:root { color-scheme: light dark; --line: #8884; --guess: #1a7f37; --own: #0969da; }
@media (prefers-color-scheme: dark) { :root { --guess: #56d364; --own: #79c0ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 52rem; height: 100dvh; display: flex; flex-direction: column;
       font: 1rem/1.5 system-ui, sans-serif; padding: 0 1rem; }
header { display: flex; gap: 1rem; align-items: baseline; padding: .75rem 0;
         border-bottom: 1px solid var(--line); flex-wrap: wrap; }
h1 { font-size: 1.1rem; margin: 0; }
#link, #state { font-size: .875rem; }
#state { margin-left: auto; }
#talk { flex: 1; overflow-y: auto; padding: 1rem 0; }
.turn { margin: 0 0 1rem; white-space: pre-wrap; overflow-wrap: anywhere; }
.user { font-weight: 600; }
.guess { color: var(--guess); }
.own { color: var(--own); text-decoration: underline dotted; }
.failed { color: #d1242f; }
#figures { font-size: .875rem; border-top: 1px solid var(--line); padding: .5rem 0;
           display: flex; gap: .25rem 1.25rem; flex-wrap: wrap; min-height: 2.5rem; }
#compare { font-size: .875rem; min-height: 44px; padding: 0 .75rem; }
#times { width: 100%; height: 28px; display: block; }
form { display: flex; gap: .5rem; padding: .5rem 0 1rem; }
textarea { flex: 1; min-width: 0; font: inherit; padding: .5rem; resize: none; border-radius: .4rem;
           border: 1px solid #8888; }
button { font: inherit; min-height: 44px; min-width: 4.5rem; border-radius: .4rem;
         border: 1px solid #8888; cursor: pointer; }
:focus-visible { outline: 3px solid var(--own); outline-offset: 1px; }
</style>
</head>
<body>
<header>
  <h1>Outrider</h1>
  <span><span class="guess">guessed here, confirmed</span> · <span class="own">the target's own</span></span>
  <span id="link" role="status">asking for the link</span>
  <span id="state" role="status">ready</span>
</header>
<main id="talk" aria-live="polite" tabindex="0" aria-label="Conversation"></main>
<section aria-label="Figures of the last answer">
  <svg id="times" role="img" aria-label="When the tokens of the last answer came"></svg>
  <div id="figures">Ask something; the figures of the answer will stand here.</div>
  <button id="compare" type="button" hidden>Measure against plain decoding</button>
</section>
<form id="form">
  <textarea id="text" rows="2" aria-label="Message" placeholder="Message (Enter sends, Shift+Enter: new line)"
            autofocus></textarea>
  <button id="send" type="submit">Send</button>
</form>
<script>
'use strict';
const at = id => document.getElementById(id);
const LINKS = {none: 'no server', unknown: 'link not tried yet', online: 'link online',
               degraded: 'link lost, trying again', offline: 'link offline'};
const DECIDERS = {server: 'the server decides', device: 'this device decides',
                  nobody: 'nobody can decide'};
const messages = [];
let stop = null;
let last = null;  // the answer that can be compared: its messages, text, count, time of its tokens

function turn(kind, text) {
  const p = document.createElement('p');
  p.className = 'turn ' + kind;
  p.textContent = text;
  at('talk').append(p);
  at('talk').scrollTop = at('talk').scrollHeight;
  return p;
}

// The link as the edge knows it, also while this device decides.
async function watchLink() {
  let text = 'this edge does not answer';
  try {
    const now = await (await fetch('/link')).json();
    text = LINKS[now.link] + ': ' + DECIDERS[now.decides];
  } catch { /* as said */ }
  if (at('link').textContent !== text) at('link').textContent = text;
  setTimeout(watchLink, document.hidden ? 10000 : 1000);
}
watchLink();

function drawTimes(begin, marks) {
  const svg = at('times');
  const width = svg.clientWidth || 300;
  const whole = Math.max(marks.length ? marks[marks.length - 1].when - begin : 1, 1);
  svg.setAttribute('viewBox', `0 0 ${width} 28`);
  svg.replaceChildren(...marks.map(mark => {
    const line = document.createElementNS('http://www.w3.org/2000/svg', 'rect');
    line.setAttribute('x', String((mark.when - begin) / whole * (width - 3)));
    line.setAttribute('width', '2');
    const height = Math.min(4 + 5 * mark.tokens, 28);
    line.setAttribute('y', String(28 - height));
    line.setAttribute('height', String(height));
    line.setAttribute('fill', mark.tokens > 1 ? 'var(--guess)' : 'var(--own)');
    return line;
  }));
}

function addFigure(text) {
  const span = document.createElement('span');
  span.textContent = text;
  at('figures').append(span);
}

function show(figures, begin, marks, count) {
  const seconds = (performance.now() - begin) / 1000;
  const parts = [`${count} tokens`, `${(count / seconds).toFixed(1)} tokens/s`];
  if (marks.length) parts.push(`first after ${((marks[0].when - begin) / 1000).toFixed(2)} s`);
  if (figures && figures.tokens_per_pass) {
    parts.push(`${figures.tokens_per_pass.toFixed(2)} tokens a target pass, where plain decoding has 1`);
  }
  if (figures && figures.speculation) parts.push('speculation ' + figures.speculation);
  at('figures').replaceChildren();
  parts.forEach(addFigure);
}

async function readEvents(response, onEvent) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    rest += value;
    for (let end; (end = rest.indexOf('\n\n')) >= 0; rest = rest.slice(end + 2)) {
      const event = rest.slice(0, end);
      if (event.startsWith('data: {')) onEvent(JSON.parse(event.slice(6)));  // else a comment, or the end
    }
  }
}

// One answer. onTokens gets its tokens as they come, and the marks of all so far.
async function generate(body, onTokens) {
  const answer = {begin: performance.now(), marks: [], text: '', count: 0, figures: null};
  const response = await fetch('/v1/chat/completions', {
    method: 'POST', signal: stop.signal,
    headers: {'Content-Type': 'application/json'},
    body: JSON.stringify({...body, stream: true, outrider: true})});
  if (!response.ok) throw new Error((await response.json()).error.message);
  await readEvents(response, event => {
    if (event.error) throw new Error(event.error.message);
    const choice = event.choices && event.choices[0];
    if (choice && choice.finish_reason) answer.figures = event.outrider;
    const tokens = event.outrider && event.outrider.tokens;
    if (!tokens) return;
    answer.marks.push({when: performance.now(), tokens: tokens.length});
    for (const token of tokens) answer.text += token.text;
    answer.count += tokens.length;
    onTokens(tokens, answer);
  });
  return answer;
}

// From the first tokens to the last: prompts take as long both ways.
const tokenTime = answer => answer.marks[answer.marks.length - 1].when - answer.marks[0].when;

// Runs something that Stop ends, and says how it went.
async function work(waiting, act) {
  stop = new AbortController();
  at('send').textContent = 'Stop';
  at('compare').disabled = true;
  at('state').textContent = waiting;
  try {
    await act();
    at('state').textContent = 'ready';
  } catch (error) {
    const stopped = error.name === 'AbortError';
    at('state').textContent = stopped ? 'stopped' : 'failed';
    if (!stopped) turn('failed', error.message);
  }
  stop = null;
  at('send').textContent = 'Send';
  at('compare').disabled = false;
  at('text').focus();
}

function showTokens(place, tokens) {
  for (const token of tokens) {
    const span = document.createElement('span');
    span.className = token.drafted ? 'guess' : 'own';
    span.textContent = token.text;
    place.append(span);
  }
  at('talk').scrollTop = at('talk').scrollHeight;
}

async function ask(text) {
  turn('user', text);
  messages.push({role: 'user', content: text});
  const asked = [...messages];
  const place = turn('assistant', '');
  let came = {begin: performance.now(), marks: [], text: '', count: 0, figures: null};
  at('compare').hidden = true;
  await work('waiting for the target', async () => {
    last = null;
    last = {asked, ...await generate({messages: asked}, (tokens, answer) => {
      came = answer;
      at('state').textContent = 'answering';
      showTokens(place, tokens);
      drawTimes(answer.begin, answer.marks);
    })};
    came = last;
  });
  if (came.text) messages.push({role: 'assistant', content: came.text});
  else messages.pop();
  show(came.figures, came.begin, came.marks, came.count);
  at('compare').hidden = !(last && last.marks.length > 1);
}

// The same answer once more by the target alone, with the same seed: its text must be the same.
async function compare() {
  await work('measuring plain decoding', async () => {
    const plain = await generate({messages: last.asked, speculation: false,
                                  seed: last.figures && last.figures.seed}, () => {});
    if (plain.marks.length < 2) throw new Error('plain decoding gave too few tokens to compare');
    const ratio = tokenTime(plain) / tokenTime(last);
    addFigure(`${ratio.toFixed(2)} × as fast as plain decoding, measured now (` +
              (plain.text === last.text ? 'same text)' : 'TEXT DIFFERS: please report this)'));
    at('compare').hidden = true;
  });
}

at('form').addEventListener('submit', event => {
  event.preventDefault();
  if (stop) return stop.abort();
  const text = at('text').value.trim();
  if (!text) return;
  at('text').value = '';
  ask(text);
});
at('compare').addEventListener('click', compare);
at('text').addEventListener('keydown', event => {
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    if (!stop) at('form').requestSubmit();
  }
});
</script>
</body>
</html>
)html";

}  // namespace

std::string_view chat_page() {
  return kPage;
}

}  // namespace outrider
