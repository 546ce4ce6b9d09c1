# SPDX-License-Identifier: GPL-2.0
"""Takes over a terminal: draws the screen again and again and reads keys without Enter."""
import os
import select
import shutil
import sys
import termios
import time
import tty

LOOK = 0.2              # seconds between two looks at the terminal's size


class Screen:
    """Use it in `with`, which restores the terminal however it ends."""

    def __enter__(self):
        self.input = sys.stdin.fileno() if sys.stdin and sys.stdin.isatty() else None
        self.saved = None
        self.typed = b''        # read, but not handled yet
        try:
            if self.input is not None:
                self.saved = termios.tcgetattr(self.input)
                tty.setcbreak(self.input)
                self._ignore_suspend(self.input)
            self._write('\x1b[?1049h\x1b[?25l')
        except BaseException:
            self.__exit__()
            raise
        return self

    @staticmethod
    def _ignore_suspend(terminal):
        """Ctrl-Z would leave our screen to the shell."""
        settings = termios.tcgetattr(terminal)
        settings[6][termios.VSUSP] = b'\0'
        termios.tcsetattr(terminal, termios.TCSADRAIN, settings)

    def __exit__(self, *unused):
        try:
            self._write('\x1b[?25h\x1b[?1049l')
        finally:
            if self.input is not None and self.saved is not None:
                termios.tcsetattr(self.input, termios.TCSADRAIN, self.saved)

    @staticmethod
    def _write(text):
        sys.stdout.write(text)
        sys.stdout.flush()

    @staticmethod
    def size():
        return shutil.get_terminal_size()

    def draw(self, lines):
        """Draws lines over the old ones and cuts off what does not fit."""
        width, height = self.size()
        body = '\x1b[K\r\n'.join(line[:width] for line in lines[:height])
        self._write(f'\x1b[H{body}\x1b[K\x1b[J')

    def key(self, seconds):
        """The next key within so many seconds; "resize" when the size changes, else None."""
        end, size = time.monotonic() + seconds, self.size()
        while True:
            left = end - time.monotonic()
            # Look for a key even if no time is left, so that keys work when reading the kernel is slow.
            key = self._poll(min(max(left, 0), LOOK))
            if key or left <= 0:
                return key
            if self.size() != size:
                return 'resize'

    def _poll(self, seconds):
        if self.input is None:
            time.sleep(seconds)
            return None
        if not self.typed:
            if not select.select([self.input], [], [], seconds)[0]:
                return None
            self.typed = os.read(self.input, 16)
            if not self.typed:
                self.input = None       # the keyboard is gone: go on without it
        data, self.typed = self.typed, self.typed[1:]
        # Arrow keys and others send several bytes that begin with escape.
        if data.startswith(b'\x1b'):
            self.typed = b''
            return None
        return chr(data[0]) if data else None
