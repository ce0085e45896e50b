"""A device with a fault: the worker, but one kind of command goes wrong.

python faulty_worker.py FAULT [worker's arguments]
"""

from __future__ import annotations

import os
import signal
import sys
import time

from dsalang._runtime.driver.mailbox import Command, Operation
from dsalang._runtime.driver.worker import Worker, main


class Killed(Worker):
    """Dies while a kernel runs, as by the out-of-memory killer."""

    def launch(self, command: Command) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class Hung(Worker):
    """Never comes back from a kernel."""

    def launch(self, command: Command) -> None:
        while True:
            time.sleep(1)


class Stopped(Worker):
    """Ends without a word."""

    def launch(self, command: Command) -> None:
        os._exit(3)


class Hello(Worker):
    """Does not even start."""

    def hello(self) -> None:
        os._exit(4)


class Corrupt(Worker):
    """Answers launches with nonsense in the field that the command line names."""

    field = ""

    def handle(self) -> None:
        super().handle()
        command, reply = self.mailbox.command, self.mailbox.reply
        if command.operation != Operation.LAUNCH:
            return
        if self.field == "magic":
            reply.magic = 0
        elif self.field == "sequence":
            reply.sequence += 7
        elif self.field == "status":
            reply.status = -1000
        elif self.field == "microseconds":
            reply.microseconds = float("nan")
        else:
            start = type(self.mailbox).reply.offset + type(reply).message.offset
            self.shared[start : start + type(reply).message.size] = b"x" * type(reply).message.size


FAULTS = {"killed": Killed, "hung": Hung, "stopped": Stopped, "hello": Hello, "corrupt": Corrupt}

if __name__ == "__main__":
    fault, _, Corrupt.field = sys.argv[1].partition(":")
    main(sys.argv[2:], FAULTS[fault])
