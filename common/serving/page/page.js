// SPDX-License-Identifier: Apache-2.0
// The conversation: what is asked, stopped, answered anew, kept and opened again.

const LINKS = {none: 'no server', unknown: 'link not tried yet', online: 'link online',
               degraded: 'link lost, trying again', offline: 'link offline'};
const DECIDERS = {server: 'the server decides', device: 'this device decides', nobody: 'nobody can decide'};
const NOTES = {length: 'ended by its length', stopped: 'stopped', failed: 'cut off'};

let chat = newChat();
let working = null;  // ends what goes on
let editing = -1;    // the index of the message that the next one replaces
let last = null;     // the answer that can be compared, with what was asked and its view
let model = '';

function newChat() {
  return {id: crypto.getRandomValues(new Uint32Array(4)).join('-'), when: Date.now(), title: '', messages: []};
}

function isWholeCall(call) {
  try {
    const given = JSON.parse(call.function.arguments);
    return given !== null && typeof given === 'object' && !Array.isArray(given);
  } catch { return false; }
}

// A message as the next request repeats it: without what the page knows of it, and without calls that were cut.
function sendable({about, tool_calls: calls = [], ...message}) {
  const whole = calls.filter(isWholeCall);
  return whole.length ? {...message, tool_calls: whole} : message;
}

const isEmpty = message => !message.content && !(message.tool_calls || []).length;

const conversation = () =>
  [...systemMessages(), ...chat.messages.map(sendable).filter(message => message.role !== 'assistant' || !isEmpty(message))];

// The figures of an answer that is over, in words.
function figuresOf({begin, marks, tokens, finish, figures, usage}, note) {
  const seconds = (performance.now() - begin) / 1000;
  const count = usage ? usage.completion_tokens : tokens.length;
  const parts = [`${count} tokens`, `${(count / seconds).toFixed(1)} tokens/s`];
  if (marks.length) parts.push(`first after ${((marks[0].when - begin) / 1000).toFixed(2)} s`);
  const drafted = tokens.filter(token => token.drafted).length;
  if (drafted) parts.push(`${Math.round(100 * drafted / tokens.length)} % drafted here`);
  if (figures && figures.tokens_per_pass) {
    parts.push(`${figures.tokens_per_pass.toFixed(2)} tokens a target pass, where plain decoding has 1`);
  }
  if (figures && figures.speculation) parts.push('speculation ' + figures.speculation);
  if (NOTES[note || finish]) parts.push(NOTES[note || finish]);
  return parts;
}

function keep(changed) {
  changed.when = Date.now();
  if (!keepChat(changed)) announce('this chat is not kept: the browser has no room');
}

function useSeed(seed) {
  fields.elements.seed.value = seed;
  keepSettings();
  announce('the next answers have seed ' + seed);
}

function showKept(message) {
  if (message.role === 'user') return showText('user', 'You', message.content);
  if (message.role === 'tool') return showText('tool', 'Result of a tool', message.content);
  const view = new AnswerView();
  const calls = (message.tool_calls || []).map((call, index) => ({index, function: call.function}));
  view.add({...message, tool_calls: calls});
  view.end();
  const about = message.about || {};
  view.describe(about.figures || [], about.seed, () => useSeed(about.seed));
}

function redraw() {
  at('talk').replaceChildren();
  chat.messages.forEach(showKept);
  showActions();
}

// Runs something that Stop ends, and says how it went: '', stopped, or failed.
async function work(waiting, act) {
  working = new AbortController();
  at('send').textContent = 'Stop';
  at('actions')?.remove();
  announce(waiting);
  let went = '';
  try {
    await act(working.signal);
    announce('ready');
  } catch (error) {
    went = error.name === 'AbortError' ? 'stopped' : 'failed';
    announce(went);
    if (went === 'failed') showFailure(error.message);
    if (error.status === 401) askForKey();
  }
  working = null;
  at('send').textContent = 'Send';
  return went;
}

// Answers the conversation as it stands. seed: digits, or empty for a fresh one.
async function answer(seed = wantedSeed()) {
  if (!settingsHold()) return;
  last = null;
  const body = {messages: conversation(), ...requestSettings()};
  const came = newAnswer(), view = new AnswerView(came);
  const asked = chat, {message} = came;
  const went = await work('waiting for the target', async signal => {
    await generate(body, seed, signal, came, delta => {
      announce('answering');
      view.add(delta);
    });
    last = {body, came, view};
  });
  view.end();
  if (isEmpty(message) && !message.reasoning_content && !came.finish) {
    view.node.remove();
  } else {
    // Without sampling there is none. One that was asked for may be larger than numbers are exact.
    const isSampled = Number.isFinite(came.figures?.seed);
    const used = isSampled ? seed || String(came.figures.seed) : '';
    message.about = {figures: figuresOf(came, went), finish: went || came.finish, ...used && {seed: used}};
    view.describe(message.about.figures, used, () => useSeed(used));
    asked.messages.push(message);
  }
  if (chat === asked || isKept(asked)) keep(asked);  // it may have been left meanwhile, or deleted
  if (chat === asked) showActions();
}

// The same answer once more by the target alone, with the same seed: its text must be the same.
async function compare() {
  const {body, came, view} = last;
  // From the first tokens to the last: prompts take as long both ways.
  const time = ({marks}) => marks.at(-1).when - marks[0].when;
  await work('measuring plain decoding', async signal => {
    const plain = newAnswer();
    const seed = chat.messages.at(-1).about.seed;
    await generate({...body, speculation: false}, seed, signal, plain, () => {});
    if (plain.marks.length < 2) throw new Error('plain decoding gave too few tokens to compare');
    const said = ({message}) => JSON.stringify([message.content, message.tool_calls?.map(call => call.function)]);
    view.describe([`${(time(plain) / time(came)).toFixed(2)} × as fast as plain decoding, measured now ` +
                   (said(plain) === said(came) ? '(same text)' : '(TEXT DIFFERS: please report this)')]);
    last = null;
  });
  showActions();
}

// A fresh seed, since the same one has the same answer.
function regenerate() {
  while (chat.messages.at(-1).role === 'assistant') chat.messages.pop();
  redraw();
  answer('');
}

function edit() {
  editing = chat.messages.findLastIndex(message => message.role === 'user');
  at('text').value = chat.messages[editing].content;
  at('editing').hidden = false;
  fitText();
  at('text').focus();
}

function stopEditing() {
  editing = -1;
  at('editing').hidden = true;
  at('text').value = '';
  fitText();
}

// The buttons below the conversation's last turn.
function showActions() {
  at('actions')?.remove();
  const message = chat.messages.at(-1);
  const row = element('div', {id: 'actions'});
  row.setAttribute('role', 'group');
  row.setAttribute('aria-label', 'The last turn');
  if (!message) {
    row.append(...examplesFor(model).map(({title, text}) =>
      element('button', {type: 'button', className: 'example', onclick: () => ask(text)},
              element('strong', {}, title), element('span', {}, text))));
  } else if (message.role === 'assistant') {
    const calls = (message.tool_calls || []).filter(isWholeCall);  // more of them may have been cut
    if (calls.length) row.append(resultsForm(calls, results => say(...results)));
    row.append(button('Regenerate', regenerate));
    const copy = button('Copy', () => copyText(message.content, copy));
    row.append(copy);
  } else {
    row.append(button('Answer', () => answer()));
  }
  if (chat.messages.some(each => each.role === 'user')) row.append(button('Edit the last message', edit));
  if (last && last.came.tokens.some(token => token.drafted)) {
    const {view, came} = last;
    const shows = button('Show what was drafted', () => {
      view.toggleTokens(came.tokens);
      shows.ariaPressed = String(view.text.hidden);
    }, {ariaPressed: String(view.text.hidden)});
    row.append(shows);
    if (came.marks.length > 1) row.append(button('Measure against plain decoding', compare, {id: 'compare'}));
  }
  following(() => at('talk').append(row));
}

// Adds messages to the conversation, which is then answered.
function say(...messages) {
  at('actions')?.remove();
  chat.messages.push(...messages);
  messages.forEach(showKept);
  keep(chat);
  store(forTab, OPEN, chat.id);
  at('talk').scrollTop = at('talk').scrollHeight;
  answer();
}

function ask(text) {
  if (!settingsHold()) return;
  if (editing >= 0) {
    chat.messages.length = editing;
    stopEditing();
    redraw();
  }
  if (!chat.messages.length) chat.title = text.trim().slice(0, 60);
  say({role: 'user', content: text});
}

function openChat(opened) {
  working?.abort();
  stopEditing();
  chat = opened;
  last = null;
  store(forTab, OPEN, chat.id);
  redraw();
  at('text').focus();
}

function listChats() {
  const chats = keptChats();
  askToDelete(false);
  at('no-chats').hidden = chats.length > 0;
  at('list').replaceChildren(...chats.map(each => {
    const title = each.title || 'Without a title';
    const opens = button(title, () => { at('chats').close(); openChat(each); }, {className: 'title'});
    if (each.id === chat.id) opens.ariaCurrent = 'true';
    const forget = () => {
      forgetChat(each);
      if (each.id === chat.id) openChat(newChat());
      listChats();
    };
    return element('li', {}, opens, element('time', {}, new Date(each.when).toLocaleString()),
                   button('Delete', forget, {ariaLabel: 'Delete ' + title}));
  }));
}

function exportChats() {
  const address = URL.createObjectURL(new Blob([JSON.stringify(keptChats(), null, 1)], {type: 'application/json'}));
  element('a', {href: address, download: 'outrider-chats.json'}).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

// The second press deletes.
function deleteAll() {
  if (at('delete-all').dataset.asks === 'no') return askToDelete(true);
  keptChats().forEach(forgetChat);
  openChat(newChat());
  listChats();
}

function askToDelete(asks) {
  at('delete-all').dataset.asks = asks ? 'yes' : 'no';
  at('delete-all').textContent = asks ? 'Really delete all chats?' : 'Delete all';
}

function askForKey() {
  at('key-form').hidden = false;
  at('key').focus();
}

async function findModel() {
  try {
    model = await modelName();
    at('model').textContent = model;
    if (!working) announce('ready');
    if (!chat.messages.length) showActions();
  } catch (error) {
    if (error.status === 401) askForKey();
    if (error.status === 401 && stored(forTab, KEY)) announce('the server refuses this key');
  }
}

// The link as the edge knows it, also while this device decides.
async function watchLink() {
  let text = 'this edge does not answer';
  try {
    const now = await (await fetch('link')).json();
    text = `${LINKS[now.link]}: ${DECIDERS[now.decides]}`;
    if (!model && now.decides !== 'nobody') findModel();
  } catch { /* as said */ }
  if (at('link').textContent !== text) at('link').textContent = text;
  setTimeout(watchLink, document.hidden ? 10000 : 1000);
}

// The field is as high as its text, up to a part of the screen.
function fitText() {
  at('text').style.height = 'auto';
  at('text').style.height = Math.min(at('text').scrollHeight + 2, innerHeight * 0.4) + 'px';
}

at('form').addEventListener('submit', event => {
  event.preventDefault();
  if (working) return working.abort();
  const text = at('text').value;
  if (!text.trim() || !settingsHold()) return;
  if (editing < 0) at('text').value = '';
  ask(text);
  fitText();
});
at('text').addEventListener('input', fitText);
at('text').addEventListener('keydown', event => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if (!working) at('form').requestSubmit();
});
document.addEventListener('keydown', event => {
  if (event.key !== 'Escape' || document.querySelector('dialog[open]')) return;
  if (working) working.abort();
  else if (editing >= 0) stopEditing();
});
at('key-form').addEventListener('submit', event => {
  event.preventDefault();
  store(forTab, KEY, at('key').value.trim());
  at('key-form').hidden = true;
  at('key').value = '';
  findModel();
});
at('new').addEventListener('click', () => openChat(newChat()));
at('open-chats').addEventListener('click', () => {
  listChats();
  at('chats').showModal();
});
at('open-settings').addEventListener('click', () => at('settings').showModal());
at('export').addEventListener('click', exportChats);
at('delete-all').addEventListener('click', deleteAll);
for (const pressed of document.querySelectorAll('.close')) {
  pressed.addEventListener('click', () => pressed.closest('dialog').close());
}

readSettings();
at('text').focus();
chat = keptChats().find(each => each.id === stored(forTab, OPEN)) || chat;
redraw();
if (program.link === 'told') {
  at('link').hidden = false;
  watchLink();
} else if (program.key === 'needed' && !stored(forTab, KEY)) {
  askForKey();
} else {
  findModel();
}
