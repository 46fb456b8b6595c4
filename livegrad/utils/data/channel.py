"""Messages between a worker and its parent: bytes, and open files, over a pair of sockets.

The parent never waits for a worker to read: what a socket does not take stays here and is sent on
later. So two processes that have much to tell each other cannot block one another.
"""

from __future__ import annotations

import array
import contextlib
import os
import select
import socket
import struct
import weakref
from collections import deque
from collections.abc import Sequence

_HEAD = struct.Struct("<IB")  # bytes of the message, number of files
_MOST_FILES = 16
_CHUNK = 1 << 16
_NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
_CLOSE_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)

# Every channel of this process, so that a forked worker can close the ones it inherits.
_open: weakref.WeakSet[Channel] = weakref.WeakSet()


class Channel:
    """One end of a connection."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._socket = end
        self._incoming = bytearray()
        self._outgoing = bytearray()
        self._files: deque[int] = deque()
        _open.add(self)

    def fileno(self) -> int:
        """For `select`; -1 once closed."""
        return self._socket.fileno()

    # ---- sending -------------------------------------------------------------------------

    def send(self, message: bytes) -> None:
        """Sends as much as the socket takes now, the rest with `flush`."""
        self._outgoing += _HEAD.pack(len(message), 0) + message
        self.flush()

    def flush(self) -> bool:
        """Sends more of what `send` left; whether that is all. A dead receiver is no error here."""
        while self._outgoing:
            try:
                sent = self._socket.send(self._outgoing[:_CHUNK], _NO_SIGNAL)
            except BlockingIOError:
                return False
            except OSError:
                self._outgoing.clear()  # `receive` will tell
                return True
            del self._outgoing[:sent]
        return True

    def send_all(self, message: bytes, files: Sequence[int] = ()) -> None:
        """Sends the message and the files, however long it takes; EOFError if nobody reads."""
        assert len(files) <= _MOST_FILES, f"{len(files)=}"
        data = memoryview(_HEAD.pack(len(message), len(files)) + message)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))]
        while data:
            try:
                sent = self._socket.sendmsg([data], rights if files else (), _NO_SIGNAL)
            except BlockingIOError:
                self._poll(select.POLLOUT, 1.0)
                continue
            except OSError:
                raise EOFError from None
            data, files = data[sent:], ()

    # ---- receiving -----------------------------------------------------------------------

    def receive(self) -> list[tuple[bytes, list[int]]]:
        """The messages that are there, with their files; EOFError if the other end is gone."""
        space = socket.CMSG_SPACE(_MOST_FILES * array.array("i").itemsize)
        try:
            data, rights, _, _ = self._socket.recvmsg(_CHUNK, space, _CLOSE_ON_EXEC)
        except BlockingIOError:
            return []
        except OSError:
            raise EOFError from None
        if not data:
            raise EOFError
        for _, _, content in rights:
            self._files.extend(array.array("i", content))
        self._incoming += data
        return self._complete()

    def _complete(self) -> list[tuple[bytes, list[int]]]:
        messages = []
        start = 0
        while len(self._incoming) - start >= _HEAD.size:
            length, count = _HEAD.unpack_from(self._incoming, start)
            end = start + _HEAD.size + length
            if end > len(self._incoming):
                break
            files = [self._files.popleft() for _ in range(count)]
            messages.append((bytes(self._incoming[start + _HEAD.size : end]), files))
            start = end
        del self._incoming[:start]
        return messages

    def wait(self, seconds: float) -> bool:
        """Whether there is something to receive within this time."""
        return self._poll(select.POLLIN, seconds)

    def _poll(self, event: int, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._socket, event)
        return bool(poll.poll(seconds * 1000))

    # ---- the end -------------------------------------------------------------------------

    def hang_up(self) -> None:
        """Tells the other end that nothing more comes, even if a fork holds a copy of ours."""
        with contextlib.suppress(OSError):  # it may be gone already
            self._socket.shutdown(socket.SHUT_RDWR)
        self.close()

    def close(self) -> None:
        """Closes this process's handle."""
        self._socket.close()
        while self._files:
            os.close(self._files.popleft())


def close_inherited() -> None:
    """In a forked process: closes the ends that belong to the parent."""
    for channel in list(_open):
        channel.close()
