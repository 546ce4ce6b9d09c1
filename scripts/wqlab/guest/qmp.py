# SPDX-License-Identifier: GPL-2.0
"""Talk to QEMU over its monitor socket (QMP), and save the memory of its guest."""
import json
import os
import socket
import time

from wqlab.steps import Failure

ANSWER_S = 30
POLL_S = 0.2
REPORT_S = 2


class Monitor:
    """A connection to one QEMU; use it in a with statement."""

    def __init__(self, path):
        self.path = str(path)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(ANSWER_S)
        self.rest = b''
        try:
            self._connect()
            if 'QMP' not in self._read():
                raise Failure(f'{path}: this is not a QMP socket')
            self.command('qmp_capabilities')
        except TimeoutError as error:
            self.close()
            raise Failure(f'{path}: QEMU does not answer: is another program connected to its monitor?') from error
        except OSError as error:
            self.close()
            raise Failure(f'{path}: {error.strerror or error}: is this the QMP socket of a running QEMU?') from error
        except Failure:
            self.close()
            raise

    def _connect(self):
        """Connect. A socket's path has at most 107 bytes, so go through a descriptor of its folder."""
        folder = os.open(os.path.dirname(self.path) or '.', os.O_PATH | os.O_DIRECTORY)
        try:
            self.socket.connect(f'/proc/self/fd/{folder}/{os.path.basename(self.path)}')
        finally:
            os.close(folder)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def _read(self):
        while b'\n' not in self.rest:
            data = self.socket.recv(1 << 16)
            if not data:
                raise Failure(f'{self.path}: QEMU has closed the connection')
            self.rest += data
        line, _, self.rest = self.rest.partition(b'\n')
        try:
            return json.loads(line)
        except ValueError as error:
            raise Failure(f'{self.path}: this is not a QMP socket') from error

    def command(self, name, fds=(), **arguments):
        """Run a command and return QEMU's answer. Events that arrive before it are ignored."""
        request = {'execute': name, 'arguments': {key.replace('_', '-'): value for key, value in arguments.items()}}
        try:
            socket.send_fds(self.socket, [json.dumps(request).encode() + b'\n'], list(fds))
            while True:
                answer = self._read()
                if 'return' in answer:
                    return answer['return']
                if 'error' in answer:
                    raise Failure(f'{name}: {answer["error"]["desc"]}')
        except TimeoutError as error:
            raise Failure(f'{name}: QEMU did not answer within {ANSWER_S} s') from error
        except OSError as error:
            raise Failure(f'{name}: {error.strerror}') from error

    def memory_size(self):
        """Return the size of the guest's memory in bytes."""
        return sum(self.command('query-memory-size-summary').values())

    def dump(self, file, progress=None):
        """
        Write the guest's memory to an open file as an ELF core. The guest is paused meanwhile. QEMU gets the open
        file instead of its name, since QEMU's user may not be allowed to open it. progress(done, total) is called
        every REPORT_S.
        """
        if self.command('query-dump')['status'] == 'active':
            raise Failure('QEMU is writing another dump: try again when it is finished')
        self.command('getfd', fds=[file.fileno()], fdname='core')
        self.command('dump-guest-memory', paging=False, protocol='fd:core', detach=True)
        told = time.monotonic()
        while True:
            state = self.command('query-dump')
            if progress and time.monotonic() >= told + REPORT_S:
                progress(state['completed'], state['total'])
                told = time.monotonic()
            if state['status'] == 'completed':
                return
            if state['status'] != 'active':
                raise Failure('QEMU could not write the dump: is the disk full?')
            time.sleep(POLL_S)
