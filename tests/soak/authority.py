"""A private authority that issues and reissues the server's certificate.

SPDX-License-Identifier: Apache-2.0
"""
import subprocess

KEY = ('-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes')
EXTENSIONS = 'subjectAltName=IP:127.0.0.1\ncrlDistributionPoints=URI:http://127.0.0.1/revoked.crl\n'


class Authority:
    """Files of the folder: `ca` is its own certificate, `cert` the server's, `key` the key of `cert`."""

    def __init__(self, folder):
        self.folder = folder
        self.ca, self.cert, self.key = folder / 'ca.pem', folder / 'cert.pem', folder / 'key.pem'
        (folder / 'extensions').write_text(EXTENSIONS, encoding='ascii')
        self._openssl('req', '-x509', *KEY, '-subj', '/CN=authority', '-days', '365', '-keyout', 'ca.key', '-out', self.ca)
        self.issue()

    def issue(self):
        """Issues a certificate for 90 days, which replaces the previous one."""
        self._openssl('req', *KEY, '-subj', '/CN=localhost', '-keyout', 'key.new', '-out', 'request.pem')
        self._openssl('x509', '-req', '-in', 'request.pem', '-CA', self.ca, '-CAkey', 'ca.key', '-CAcreateserial', '-days', '90',
                      '-extfile', 'extensions', '-out', 'cert.new')
        (self.folder / 'key.new').rename(self.key)
        (self.folder / 'cert.new').rename(self.cert)

    def server_flags(self):
        return '--tls-cert', self.cert, '--tls-key', self.key

    def _openssl(self, *words):
        subprocess.run(['openssl', *words], check=True, capture_output=True, cwd=self.folder)
