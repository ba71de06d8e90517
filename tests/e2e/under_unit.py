#!/usr/bin/python3
"""Runs a program with the restrictions of a systemd unit, without systemd: its system calls, address families,
capabilities, limits, environment, and, where a namespace may be made, its view of the file system.

  tests/e2e/under_unit.py deploy/systemd/outrider-edge.service [--without CALL] -- build/release/bin/outrider-edge ..

Debian's own python3 runs it, which has python3-seccomp. --without: forbids one call more.
SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import errno
import os
import resource
import shlex
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import seccomp

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG, PR_GET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 2, 24, 38
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
CLONE_NEW_ANY = 0x7e020080
MS_BIND, MS_REC = 0x1000, 0x4000
AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY, SYS_MOUNT_SETATTR = -100, 0x8000, 1, 442
PROT_WRITE, PROT_EXEC, SHM_EXEC = 2, 4, 0o100000
FAMILIES = {'AF_UNIX': 1, 'AF_INET': 2, 'AF_INET6': 10}
MOST_FAMILIES = 64
REAL_TIME = (1, 2, 6)  # SCHED_FIFO, SCHED_RR, SCHED_DEADLINE
# Where systemd makes a unit's folders.
PLACES = {'CacheDirectory': '/var/cache', 'StateDirectory': '/var/lib'}
DEVICES = ('null', 'zero', 'full', 'random', 'urandom', 'tty')
# System calls that these settings forbid; our programs use none of them.
FORBIDDEN = {'ProtectClock': ('clock_settime', 'clock_adjtime', 'adjtimex', 'settimeofday'),
             'ProtectHostname': ('sethostname', 'setdomainname'),
             'ProtectKernelLogs': ('syslog',),
             'ProtectKernelModules': ('init_module', 'finit_module', 'delete_module'),
             'LockPersonality': ('personality',)}


def settings(unit):
    """[(name, value)] of its [Service], in their order."""
    section, found = '', []
    for line in Path(unit).read_text(encoding='utf-8').splitlines():
        if line.startswith('['):
            section = line
        elif section == '[Service]' and '=' in line and not line.startswith('#'):
            found.append(tuple(part.strip() for part in line.split('=', 1)))
    return found


def members(group):
    """The calls of systemd's group."""
    shown = subprocess.run(['systemd-analyze', '--no-pager', 'syscall-filter', group], check=True, capture_output=True, text=True)
    calls = set()
    for word in (line.strip() for line in shown.stdout.splitlines()[1:]):
        if word.startswith('@'):
            calls |= members(word)
        elif word and not word.startswith('#'):
            calls.add(word)
    return calls


def allowed_calls(lines):
    """The calls that SystemCallFilter= lines allow: the first allows, those that begin with ~ remove."""
    calls = members('@default')
    for line in lines:
        for word in line.removeprefix('~').split():
            named = members(word) if word.startswith('@') else {word}
            calls = calls - named if line.startswith('~') else calls | named
    return calls


def load(default, rules):
    """rules: [(action, call, argument comparison..)]; calls that this machine lacks are skipped."""
    calls = seccomp.SyscallFilter(default)
    for action, call, *arguments in rules:
        if seccomp.resolve_syscall(seccomp.Arch(), call) >= 0:
            calls.add_rule_exactly(action, call, *arguments)
    calls.load()


def masked(argument, mask, value):
    return seccomp.Arg(argument, seccomp.MASKED_EQ, mask, value)


def restrictions(unit):
    """Rules for calls that are allowed except with some arguments."""
    refused = seccomp.ERRNO(errno.EPERM)
    for name, calls in FORBIDDEN.items():
        if unit.get(name) == 'yes':
            yield from ((refused, call) for call in calls)
    if unit.get('MemoryDenyWriteExecute') == 'yes':
        yield refused, 'mmap', masked(2, PROT_WRITE | PROT_EXEC, PROT_WRITE | PROT_EXEC)
        yield refused, 'mprotect', masked(2, PROT_EXEC, PROT_EXEC)
        yield refused, 'pkey_mprotect', masked(2, PROT_EXEC, PROT_EXEC)
        yield refused, 'shmat', masked(2, SHM_EXEC, SHM_EXEC)
    if unit.get('RestrictRealtime') == 'yes':
        for policy in REAL_TIME:
            yield refused, 'sched_setscheduler', seccomp.Arg(1, seccomp.EQ, policy)
    if unit.get('RestrictNamespaces') == 'yes':
        for bit in (1 << i for i in range(32) if CLONE_NEW_ANY >> i & 1):
            yield refused, 'unshare', masked(0, bit, bit)
            yield refused, 'clone', masked(0, bit, bit)
        yield refused, 'setns'
        yield seccomp.ERRNO(errno.ENOSYS), 'clone3'  # whose flags no filter can read
    if unit.get('RestrictSUIDSGID') == 'yes':
        for bit in (stat.S_ISUID, stat.S_ISGID):
            for call, argument in (('chmod', 1), ('fchmod', 1), ('fchmodat', 2), ('mkdir', 1), ('mkdirat', 2)):
                yield refused, call, masked(argument, bit, bit)
    if 'RestrictAddressFamilies' in unit:
        known = {FAMILIES[name] for name in unit['RestrictAddressFamilies'].split()}
        for family in set(range(MOST_FAMILIES)) - known:
            yield seccomp.ERRNO(errno.EAFNOSUPPORT), 'socket', seccomp.Arg(0, seccomp.EQ, family)


def check(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), f'{what}: {os.strerror(ctypes.get_errno())}')


def mount(source, target, kind, flags=0):
    check(LIBC.mount(source.encode(), str(target).encode(), kind.encode(), ctypes.c_ulong(flags), None), f'mount {target}')


def hide_devices():
    """Only devices that are no hardware."""
    with tempfile.TemporaryDirectory(dir='/var/cache') as folder:
        mount('tmpfs', folder, 'tmpfs')
        for name in DEVICES:
            (Path(folder) / name).touch()
            mount(f'/dev/{name}', Path(folder) / name, '', MS_BIND)
        (Path(folder) / 'shm').mkdir()
        mount(folder, '/dev', '', MS_BIND | MS_REC)
        check(LIBC.umount2(folder.encode(), 2), 'umount')


def change_view(unit, program):
    """The file system read-only except for the unit's folders, no homes, a /tmp of its own, no devices."""
    uid, gid = os.getuid(), os.getgid()
    check(LIBC.unshare(CLONE_NEWNS | CLONE_NEWUSER), 'unshare')
    for name, text in (('setgroups', 'deny'), ('uid_map', f'{uid} {uid} 1'), ('gid_map', f'{gid} {gid} 1')):
        Path(f'/proc/self/{name}').write_text(text, encoding='ascii')
    attributes = (ctypes.c_uint64 * 4)(MOUNT_ATTR_RDONLY, 0, 0, 0)
    check(LIBC.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, b'/', AT_RECURSIVE, attributes, ctypes.sizeof(attributes)), 'mount_setattr')
    for name, place in PLACES.items():
        mount('tmpfs', place, 'tmpfs')
        if name in unit:
            (Path(place) / unit[name]).mkdir()
    if unit.get('PrivateDevices') == 'yes':
        hide_devices()
    for folder in ('/home', '/root', '/run/user', '/tmp', '/var/tmp'):
        needed = any(Path(path).resolve().is_relative_to(folder) for path in (program, __file__))  # a package's are in /usr
        if Path(folder).is_dir() and not needed:
            mount('tmpfs', folder, 'tmpfs')


def main(words):
    split = words.index('--')
    lines = settings(words[0])
    without = words[2:split] if words[1] == '--without' else []
    command = words[split + 1:]
    unit = dict(lines)
    filters = [value for name, value in lines if name == 'SystemCallFilter']
    calls = allowed_calls(filters) - set(without)
    environment = dict(part.split('=', 1) for name, value in lines if name == 'Environment' for part in shlex.split(value))
    parent, wanted = os.getppid(), ctypes.c_int()
    check(LIBC.prctl(PR_GET_PDEATHSIG, ctypes.byref(wanted), 0, 0, 0), 'prctl')
    try:
        change_view(unit, command[0])
    except OSError as error:
        print(f'under_unit: the file system stays as it is: {error}', file=sys.stderr)
    os.umask(int(unit['UMask'], 8))
    if 'LimitNOFILE' in unit:
        limit = min(int(unit['LimitNOFILE']), resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    capability = 0
    while unit['CapabilityBoundingSet'] == '' and LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1
    check(LIBC.prctl(PR_SET_PDEATHSIG, wanted.value, 0, 0, 0), 'prctl')  # a new namespace resets it
    if os.getppid() != parent:
        sys.exit(1)
    check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 'NoNewPrivileges')
    # The filter by arguments comes first: it allows loading the other filter.
    load(seccomp.ALLOW, restrictions(unit))
    otherwise = unit.get('SystemCallErrorNumber')
    load(seccomp.ERRNO(getattr(errno, otherwise)) if otherwise else seccomp.KILL_PROCESS, [(seccomp.ALLOW, call) for call in calls])
    os.execve(command[0], command, {**os.environ, 'HOME': '/nonexistent', **environment})


if __name__ == '__main__':
    main(sys.argv[1:])
