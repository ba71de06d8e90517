// SPDX-License-Identifier: Apache-2.0
// Answers of the program that serves this page, by OpenAI's routes. Addresses are relative: a proxy may have put the page
// below a path.

const program = document.documentElement.dataset;  // link: told or none; key: needed or none

function headers() {
  const key = stored(forTab, KEY);
  return {'Content-Type': 'application/json', ...key && {Authorization: 'Bearer ' + key}};
}

class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function refusalOf(response) {
  let message = `the server answers ${response.status} ${response.statusText}`;
  try { ({message} = (await response.json()).error); } catch { /* a proxy's page */ }
  return new Refusal(response.status, message);
}

async function readEvents(response, onEvent) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    rest += value;
    for (let end; (end = rest.indexOf('\n\n')) >= 0; rest = rest.slice(end + 2)) {
      if (rest.startsWith('data: {')) onEvent(JSON.parse(rest.slice(6, end)));  // else a comment, or the end
    }
  }
}

// An answer so far: the message as the next request repeats it, and what is known of how it came.
const newAnswer = () => ({message: {role: 'assistant', content: ''}, begin: performance.now(), marks: [], tokens: [],
                          finish: '', figures: null, usage: null});

function addCalls(message, deltas) {
  for (const {index, id, function: part} of deltas) {
    message.tool_calls ||= [];
    const call = message.tool_calls[index] ||= {id, type: 'function', function: {name: '', arguments: ''}};
    call.function.name += part.name || '';
    call.function.arguments += part.arguments || '';
  }
}

function addEvent(answer, event) {
  if (event.error) throw new Error(event.error.message);
  if (event.usage) answer.usage = event.usage;
  const [choice] = event.choices;
  if (!choice) return;
  const {message} = answer, {delta} = choice;
  if (delta.content) message.content += delta.content;
  if (delta.reasoning_content) message.reasoning_content = (message.reasoning_content || '') + delta.reasoning_content;
  if (delta.tool_calls) addCalls(message, delta.tool_calls);
  if (choice.finish_reason) [answer.finish, answer.figures] = [choice.finish_reason, event.outrider || {}];
  const tokens = event.outrider && event.outrider.tokens;
  if (!tokens) return;
  answer.marks.push({when: performance.now(), tokens: tokens.length});
  answer.tokens.push(...tokens);
}

// Fills the answer as it comes; onPart gets what each event adds. seed: digits, or empty for a fresh one.
async function generate(body, seed, signal, answer, onPart) {
  const asked = {...body, stream: true, stream_options: {include_usage: true}, outrider: true};
  const text = JSON.stringify(asked);
  const response = await fetch('v1/chat/completions', {
    method: 'POST', signal, headers: headers(), body: seed ? `{"seed":${seed},${text.slice(1)}` : text});
  if (!response.ok) throw await refusalOf(response);
  await readEvents(response, event => {
    addEvent(answer, event);
    if (event.choices.length) onPart(event.choices[0].delta);
  });
  if (!answer.finish) throw new Error('the connection ended before the answer did');
}

// The model's name; empty while none is known.
async function modelName() {
  const response = await fetch('v1/models', {headers: headers()});
  if (!response.ok) throw await refusalOf(response);
  return (await response.json()).data[0].id;
}
