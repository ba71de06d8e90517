"""A headless Chromium, driven by its DevTools protocol over a pipe, as far as page tests need it.

SPDX-License-Identifier: Apache-2.0
"""
import base64
import json
import os
import shutil
import subprocess
import tempfile

PROGRAM = shutil.which('chromium') or shutil.which('google-chrome')


# Keys that are pressed by name, with their codes.
KEYS = {'Enter': (13, '\r'), 'Escape': (27, ''), 'Tab': (9, '')}
SHIFT = 8


class Browser:
    """One page. `console`, `requests` and `posts` hold its log, its requests and the bodies of those that send one."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        our_read, its_write = os.pipe()
        its_read, our_write = os.pipe()

        def take_the_pipe():  # Chromium reads from 3 and writes to 4
            reading, writing = os.dup(its_read), os.dup(its_write)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        self.process = subprocess.Popen(
            [PROGRAM, '--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
             '--disable-background-networking', '--remote-debugging-pipe',
             f'--user-data-dir={self.folder.name}', 'about:blank'],
            close_fds=False, preexec_fn=take_the_pipe, stderr=subprocess.DEVNULL,
            env=dict(os.environ, TMPDIR=self.folder.name))  # a killed one leaves its files
        os.close(its_read)
        os.close(its_write)
        self.reading, self.writing = os.fdopen(our_read, 'rb'), our_write
        self.left = b''
        self.calls = 0
        self.console, self.requests, self.posts, self.events = [], [], [], []
        target = self.call('Target.createTarget', url='about:blank')['targetId']
        attached = self.call('Target.attachToTarget', targetId=target, flatten=True)
        self.session = attached['sessionId']
        for domain in ('Page', 'Runtime', 'Log', 'Network'):
            self.call(f'{domain}.enable')

    session = None

    def close(self):
        self.process.kill()
        self.process.wait()
        self.reading.close()
        os.close(self.writing)
        self.folder.cleanup()

    def call(self, method, **parameters):
        self.calls += 1
        message = {'id': self.calls, 'method': method, 'params': parameters}
        if self.session:
            message['sessionId'] = self.session
        os.write(self.writing, json.dumps(message).encode() + b'\0')
        while True:
            answer = self._next()
            if answer.get('id') == message['id']:
                if 'error' in answer:
                    raise RuntimeError(f'{method}: {answer["error"]["message"]}')
                return answer['result']

    def _next(self):
        while b'\0' not in self.left:
            more = os.read(self.reading.fileno(), 1 << 16)
            if not more:
                raise RuntimeError('Chromium has ended')
            self.left += more
        line, self.left = self.left.split(b'\0', 1)
        message = json.loads(line)
        method, parameters = message.get('method', ''), message.get('params', {})
        if method == 'Runtime.consoleAPICalled':
            self.console.append(str(parameters['args']))
        elif method == 'Runtime.exceptionThrown':
            self.console.append(str(parameters['exceptionDetails']))
        elif method == 'Log.entryAdded':
            self.console.append(parameters['entry']['text'])
        elif method == 'Network.requestWillBeSent':
            self.requests.append(parameters['request']['url'])
            if 'postData' in parameters['request']:
                self.posts.append(parameters['request']['postData'])
        if method:
            self.events.append(method)
        return message

    def open(self, url, width):
        """The page as a screen of that width shows it, by device metrics."""
        self.call('Emulation.setDeviceMetricsOverride', width=width, height=844,
                  deviceScaleFactor=1, mobile=width < 600)
        self.events.clear()
        self.call('Page.navigate', url=url)
        while 'Page.loadEventFired' not in self.events:
            self._next()

    def value(self, expression):
        """The expression's value, or that of its promise."""
        answer = self.call('Runtime.evaluate', expression=expression, returnByValue=True, awaitPromise=True)
        if 'exceptionDetails' in answer:
            raise RuntimeError(f'{expression[:200]}: {answer["exceptionDetails"]}')
        return answer['result'].get('value')

    def press(self, key, modifiers=0):
        code, text = KEYS[key]
        named = {'key': key, 'code': key, 'windowsVirtualKeyCode': code, 'modifiers': modifiers}
        self.call('Input.dispatchKeyEvent', type='keyDown' if text else 'rawKeyDown', text=text, **named)
        self.call('Input.dispatchKeyEvent', type='keyUp', **named)

    def write(self, text):
        """Puts a text where the cursor is."""
        self.call('Input.insertText', text=text)

    def prefer(self, **features):
        """Sets the reader's preferences, by names with underscores: prefers_color_scheme='dark'."""
        self.call('Emulation.setEmulatedMedia',
                  features=[{'name': name.replace('_', '-'), 'value': value} for name, value in features.items()])

    def screenshot(self, path):
        height = self.value('document.documentElement.scrollHeight')
        width = self.value('innerWidth')
        clip = {'x': 0, 'y': 0, 'width': width, 'height': height, 'scale': 1}
        image = self.call('Page.captureScreenshot', captureBeyondViewport=True, clip=clip)
        with open(path, 'wb') as file:
            file.write(base64.b64decode(image['data']))
