"""One answer over HTTP, piece by piece.

SPDX-License-Identifier: Apache-2.0
"""
import http.client
import json
import time


def pieces(port, tls=None, **question):
    """tls: an SSLContext; None: plaintext. (time.monotonic() when it was read, text, the program's own figures or None) of each piece; ValueError
    with the message if the answer ends in an error."""
    if tls:
        connection = http.client.HTTPSConnection('127.0.0.1', port, timeout=60, context=tls)
    else:
        connection = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
    try:
        connection.request('POST', '/v1/completions', json.dumps({**question, 'stream': True, 'outrider': True}),
                           {'Content-Type': 'application/json'})
        for line in connection.getresponse():
            now = time.monotonic()
            if not line.startswith(b'data: {'):
                continue
            event = json.loads(line[6:])
            if 'error' in event:
                raise ValueError(event['error']['message'])
            for choice in event.get('choices', ()):
                yield now, choice.get('text') or '', event.get('outrider')
    finally:
        connection.close()
