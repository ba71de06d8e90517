// SPDX-License-Identifier: Apache-2.0
'use strict';

const at = id => document.getElementById(id);

// An element with these properties and children. Texts become text nodes: markup in them stays text.
function element(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  Object.assign(node, properties);
  node.append(...children);
  return node;
}

const button = (label, act, properties = {}) =>
  element('button', {type: 'button', textContent: label, onclick: act, ...properties});

// Puts a text on the clipboard, and says on the button that it did. Pages of plain http from another machine have no
// navigator.clipboard; for them the older command copies a selection.
async function copyText(text, pressed) {
  try {
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(text);
    } else {
      const place = element('textarea', {value: text, className: 'unseen'});
      document.body.append(place);
      place.select();
      const copied = document.execCommand('copy');
      place.remove();
      pressed.focus();
      if (!copied) throw new Error('refused');
    }
    announce('copied');
    pressed.textContent = 'Copied';
  } catch {
    pressed.textContent = 'The browser refuses';
  }
  setTimeout(() => { pressed.textContent = 'Copy'; }, 2000);
}

// One line of what goes on, which screen readers speak.
function announce(text) {
  if (at('state').textContent !== text) at('state').textContent = text;
}
