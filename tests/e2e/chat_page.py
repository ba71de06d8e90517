"""A user of the chat page: presses its keys and buttons, and reads what it shows.

SPDX-License-Identifier: Apache-2.0
"""
import json

from programs import eventually

LAST_ANSWER = "[...document.querySelectorAll('.turn.assistant')].at(-1)"


class ChatPage:
    def __init__(self, browser, base):
        self.browser, self.base = browser, base

    def open(self, width=1280):
        self.browser.console.clear()
        self.browser.requests.clear()
        self.browser.posts.clear()
        self.browser.open(self.base + '/', width)

    def open_fresh(self, width=1280):
        """Opens it as on a first visit."""
        self.open(width)
        self.browser.value('localStorage.clear(); sessionStorage.clear()')
        self.open(width)

    def value(self, expression):
        return self.browser.value(expression)

    def text(self, selector):
        return self.value(f'document.querySelector({json.dumps(selector)})?.innerText')

    def count(self, selector):
        return self.value(f'document.querySelectorAll({json.dumps(selector)}).length')

    def click(self, label):
        """Presses the button with this label, which must be seen."""
        eventually(lambda: self.value(
            f'(b => b && (b.click(), true))([...document.querySelectorAll("button")].find(b => '
            f'(b.ariaLabel || b.textContent) === {json.dumps(label)} && b.checkVisibility()))'),
            f'no button {label!r}', 20)

    def wait_for(self, expression):
        return eventually(lambda: self.value(expression),
                          lambda: f'never: {expression}; the page says {self.text("body")!r}')

    def state(self):
        return self.value("document.getElementById('state').textContent")

    def wait_until(self, state):
        eventually(lambda: self.state() == state,
                   lambda: f'never {state!r}, but {self.state()!r}: {self.text("#talk")!r}')

    def send(self, text):
        """Writes a message and sends it."""
        self.value("document.getElementById('text').focus()")
        self.browser.write(text)
        self.browser.press('Enter')

    def ask(self, text):
        """Sends a message and waits for the whole answer."""
        self.send(text)
        self.wait_until('ready')
        return self.answer()

    def answer(self):
        return self.value(f"{LAST_ANSWER}?.querySelector('.text').innerText")

    def figures(self):
        return self.value(f"[...({LAST_ANSWER}?.querySelectorAll('.figures') || [])].map(f => f.innerText).join(' ').replaceAll('\\n', ' ')")

    def seed(self):
        return self.value(f"{LAST_ANSWER}.querySelector('.figures').innerText.match(/seed (\\d+)/)?.[1]")

    def set(self, **settings):
        """Fills fields of the settings."""
        for name, value in settings.items():
            self.value(f'(f => {{ f.value = {json.dumps(value)}; f.dispatchEvent(new Event("input", {{bubbles: true}})) }})'
                       f'(document.getElementById("fields").elements[{json.dumps(name)}])')

    def last_request(self):
        return json.loads(self.browser.posts[-1])
