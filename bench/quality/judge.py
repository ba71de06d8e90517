"""Judges answers: by the text that a reference has, by a number, by a function's tests, by the likelier choice.

Generated code runs in bubblewrap: without network, on a file system that it can only read, except an empty /tmp, as nobody,
with bounded time, memory and processes; all of them end with it.

SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass

SECONDS = 10          # of a processor, and 1.5 times as long by the clock
MEMORY = 1 << 30      # bytes of address space
PROCESSES = 32
OUTPUT = 1 << 20       # bytes of a file
NUMBER = re.compile(r'-?\d[\d,]*(?:\.\d+)?')
FENCE = re.compile(r'```(?:python|py)?[ \t]*\n(.*?)(?:```|\Z)', re.S | re.I)


def words(text):
    return re.findall(r'\w+', text.lower())


def rouge_l(text, reference):
    """F1 of the longest common subsequence of words (Lin 2004)."""
    a, b = words(text), words(reference)
    if not a or not b:
        return float(a == b)
    row = [0] * (len(b) + 1)
    for one in a:
        before = 0
        for j, other in enumerate(b, 1):
            before, row[j] = row[j], before + 1 if one == other else max(row[j], row[j - 1])
    common = row[-1]
    return 2 * common / (len(a) + len(b))


def last_number(text):
    """The last number of the text, as it is compared; None where there is none."""
    found = NUMBER.findall(text)
    return float(found[-1].replace(',', '')) if found else None


def program_of(answer, code, entry_point):
    """The program that an answer to "Complete this Python function" is: its first block of code, or all of it. Where it
    goes on behind the given beginning instead of repeating it, it stands behind it."""
    fenced = FENCE.search(answer)
    text = fenced.group(1) if fenced else answer
    return text if re.search(rf'^\s*def {re.escape(entry_point)}\b', text, re.M) else code + text


@dataclass
class Ran:
    passed: bool
    why: str = ''  # where it did not


def sandbox():
    """The words before a program's own; raises RuntimeError where none can be made."""
    if not shutil.which('bwrap'):
        raise RuntimeError('generated code runs in bubblewrap only, which is not installed. Remedy: apt-get install bubblewrap')
    nobody = ['setpriv', '--reuid', '65534', '--regid', '65534', '--clear-groups'] if os.geteuid() == 0 else []
    limits = ['prlimit', f'--nproc={PROCESSES}', f'--as={MEMORY}', f'--cpu={SECONDS}', f'--fsize={OUTPUT}', '--core=0']
    return [*nobody, *limits, 'bwrap', '--ro-bind', '/', '/', '--tmpfs', '/tmp', '--tmpfs', '/var/tmp', '--tmpfs', '/dev/shm', '--dev', '/dev',
            '--proc', '/proc', '--unshare-all', '--die-with-parent', '--new-session', '--clearenv', '--setenv', 'PATH', '/usr/bin:/bin',
            '--chdir', '/tmp', '--']


def check_sandbox():
    """Raises RuntimeError where this machine makes none: some containers allow no namespaces."""
    tried = subprocess.run([*sandbox(), 'true'], capture_output=True, text=True, check=False, timeout=60)
    if tried.returncode != 0:
        raise RuntimeError(f'bubblewrap makes no sandbox here: {tried.stderr.strip()}. Remedy: a machine that allows user namespaces')


def run_tests(program, tests, entry_point):
    """Whether the program passes its tests, a function check(candidate)."""
    # A program that ends early, as by exit(0), has not passed: only the end of the tests says so, by a word that it does not know.
    word = os.urandom(16).hex()
    source = f'{program}\n\n{tests}\n\ncheck({entry_point})\nprint({word!r})\n'
    command = [*sandbox(), 'python3', '-I', '-c', 'import sys; exec(compile(sys.stdin.read(), "answer", "exec"))']
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as errors:  # --fsize bounds them
        given.write(source.encode(errors='replace'))
        given.seek(0)
        alive, held = os.pipe()  # ends with the last of its processes
        process = subprocess.Popen(command, stdin=given, stdout=said, stderr=errors, pass_fds=[held])
        os.close(held)
        try:
            process.wait(timeout=1.5 * SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return Ran(False, f'took longer than {1.5 * SECONDS:g} s')
        finally:
            process.wait()
            os.read(alive, 1)
            os.close(alive)
        if process.returncode == 0 and tail_of(said).endswith(word):
            return Ran(True)
        last = tail_of(errors).splitlines()
    return Ran(False, last[-1] if last else f'ended with {process.returncode}, before its tests did')


def tail_of(file):
    file.seek(max(file.seek(0, os.SEEK_END) - 4096, 0))
    return file.read().decode(errors='replace').strip()
