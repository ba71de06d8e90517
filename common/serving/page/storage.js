// SPDX-License-Identifier: Apache-2.0
// What the browser keeps: settings and chats for this address, and the server's key until the tab is closed. Each chat is
// an entry of its own, so that two tabs do not lose each other's.

const MOST_CHATS = 100, MOST_CHARACTERS = 3000000;
const SETTINGS = 'outrider.settings', KEY = 'outrider.key', OPEN = 'outrider.open', CHAT = 'outrider.chat.';

// A browser may refuse all storage, and entries may be anything.
function stored(storage, name) {
  try { return JSON.parse(storage().getItem(name)); } catch { return null; }
}

function store(storage, name, value) {
  try { storage().setItem(name, JSON.stringify(value)); } catch { return false; }
  return true;
}

const forEver = () => localStorage, forTab = () => sessionStorage;

function chatEntries() {
  try { return Object.keys(localStorage).filter(name => name.startsWith(CHAT)); } catch { return []; }
}

const isChat = chat => chat && typeof chat.id === 'string' && Array.isArray(chat.messages) && Number.isFinite(chat.when);

// The kept chats, the latest first.
function keptChats() {
  const chats = chatEntries().map(name => stored(forEver, name)).filter(isChat);
  return chats.sort((one, other) => other.when - one.when);
}

const isKept = chat => chatEntries().includes(CHAT + chat.id);

function forgetChat(chat) {
  try { localStorage.removeItem(CHAT + chat.id); } catch { /* nothing was kept */ }
}

// Keeps a chat; older ones make room for it. False: the browser has none.
function keepChat(chat) {
  const others = keptChats().filter(other => other.id !== chat.id).slice(0, MOST_CHATS - 1);
  let room = MOST_CHARACTERS - JSON.stringify(chat).length;
  const kept = others.filter(other => (room -= JSON.stringify(other).length) >= 0);
  const ids = new Set([chat, ...kept].map(each => CHAT + each.id));
  for (const name of chatEntries()) if (!ids.has(name)) localStorage.removeItem(name);
  while (!store(forEver, CHAT + chat.id, chat)) {
    if (!kept.length) return false;
    forgetChat(kept.pop());
  }
  return true;
}
