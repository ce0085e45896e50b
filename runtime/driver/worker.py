"""A process that plays a device: the emulator behind a mailbox in shared memory.

    python -m dsalang._runtime.driver.worker [--target NAME] [--engine fast|reference|riscv] SOCKET MEMORY

SOCKET and MEMORY are file descriptors that the driver passes on. The worker ends when the driver's end of the
socket is closed.
"""

from __future__ import annotations

import argparse
import mmap
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module

import numpy as np

from dsalang._backend.errors import DeviceError, DsaError, ImageError
from dsalang._backend.image.elf import load
from dsalang._backend.image.model import Image
from dsalang._backend.target import Target

from ..memory import Memory, Segment
from ..report import Run
from ..residency import Kept, Sram
from .mailbox import (
    MAGIC,
    MEMORY_BASE,
    MEMORY_OFFSET,
    MESSAGE_BYTES,
    Command,
    Mailbox,
    Operation,
    Status,
)

Engine = Callable[[Image, Target, Sequence[int], tuple[int, int, int], Memory, "Kept | None"], Run]


def engine_named(name: str) -> Engine:
    """The engine that runs images: "fast" (the reference engine where it cannot), "reference", "riscv"."""
    if name not in _ENGINES:
        raise DeviceError(f"there is no engine {name!r}")
    return _ENGINES[name]


def _slow(
    package: str,
    image: Image,
    target: Target,
    args: Sequence[int],
    grid: tuple[int, int, int],
    memory: Memory,
    kept: Kept | None,
) -> Run:
    from ..reference.options import Options

    run: Callable[..., Run] = import_module(f"..{package}.engine", __package__).run
    return run(image, target, args, grid, memory, Options(kept=kept))


def _fast(
    image: Image,
    target: Target,
    args: Sequence[int],
    grid: tuple[int, int, int],
    memory: Memory,
    kept: Kept | None,
) -> Run:
    from ..fast.engine import Options, run
    from ..fast.outline import UnsuitedError

    try:
        return run(image, target, args, grid, memory, Options(kept=kept))
    except UnsuitedError:
        return _slow("reference", image, target, args, grid, memory, kept)


_ENGINES: dict[str, Engine] = {
    "fast": _fast,
    "reference": partial(_slow, "reference"),
    "riscv": partial(_slow, "riscv"),
}


class RefusedError(Exception):
    """A command that cannot be carried out: status and message of the reply."""

    def __init__(self, status: Status, message: str) -> None:
        self.status, self.message = status, message
        super().__init__(message)


@dataclass
class Worker:
    """The device. `handle` does the command in the mailbox and fills in the reply."""

    shared: mmap.mmap
    target: Target
    engine: Engine
    images: list[Image] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.mailbox = Mailbox.from_buffer(self.shared)
        self.sram = Sram()
        self.memory = np.frombuffer(self.shared, np.uint8, offset=MEMORY_OFFSET)

    def serve(self, doorbell: socket.socket) -> None:
        """Do commands until the driver goes away."""
        while doorbell.recv(1):
            self.handle()
            try:
                doorbell.sendall(b"!")
            except OSError:
                return

    def handle(self) -> None:
        """Do a command; whatever goes wrong becomes the reply's status and message."""
        command, reply = self.mailbox.command, self.mailbox.reply
        status, message = Status.OK, ""
        try:
            self.do(command)
        except RefusedError as error:
            status, message = error.status, error.message
        except ImageError as error:
            status, message = Status.BAD_IMAGE, str(error)
        except DsaError as error:
            status, message = Status.KERNEL, str(error)
        except Exception as error:
            status, message = Status.KERNEL, f"the emulator failed: {type(error).__name__}: {error}"
        reply.status = status
        reply.message = message.encode()[: MESSAGE_BYTES - 1].decode("utf-8", "ignore").encode()
        reply.magic, reply.sequence = MAGIC, command.sequence

    def do(self, command: Command) -> None:
        """Do a command. Raises RefusedError and the errors of images and engines."""
        if command.magic != MAGIC:
            raise RefusedError(Status.BAD_ARGUMENT, "the command has no magic number")
        if command.operation == Operation.HELLO:
            self.hello()
        elif command.operation == Operation.LOAD:
            self.load(command)
        elif command.operation == Operation.LAUNCH:
            self.launch(command)
        else:
            raise RefusedError(Status.BAD_ARGUMENT, f"there is no operation {command.operation}")

    def hello(self) -> None:
        """Say what the device is."""
        reply, target = self.mailbox.reply, self.target
        reply.cores, reply.clock_mhz = target.cores, target.clock_mhz
        reply.bytes_per_microsecond = target.hbm.bytes_per_second / 1e6
        reply.target = target.name.encode()[:63]
        reply.target_digest = target.digest.encode()[:31]

    def load(self, command: Command) -> None:
        """Load the image that lies in the device's memory."""
        data = self.stretch(command.image_address, command.image_bytes).tobytes()
        image = load(data)
        if image.target_digest != self.target.digest:
            raise ImageError(
                f"image {image.name!r} is for target {image.target}, the device is {self.target.name}"
            )
        self.images.append(image)
        self.mailbox.reply.image = len(self.images) - 1

    def launch(self, command: Command) -> None:
        """Run a kernel."""
        if command.image >= len(self.images):
            raise RefusedError(Status.BAD_ARGUMENT, f"there is no image {command.image}")
        image = self.images[command.image]
        if command.arguments != len(image.arguments):
            raise RefusedError(
                Status.BAD_ARGUMENT,
                f"kernel {image.name!r} takes {len(image.arguments)} arguments, not {command.arguments}",
            )
        args = list(command.argument[: command.arguments])
        pointers = [(v, a.name) for v, a in zip(args, image.arguments) if a.is_pointer]
        segments = []
        for block in command.block[: command.blocks]:
            names = [name for at, name in pointers if 0 <= at - block.address < block.bytes]
            data = self.stretch(block.address, block.bytes)
            label = "/".join(names) or "memory of no argument"
            segments.append(Segment(block.address, data, label))
        memory = Memory(segments)
        x, y, z = command.grid
        if 0 in (x, y, z):
            return
        self.mailbox.reply.microseconds = self.run(image, args, (x, y, z), memory).microseconds

    def run(self, image: Image, args: list[int], grid: tuple[int, int, int], memory: Memory) -> Run:
        """Run an image on what is in SRAM. Raises RefusedError where it was told that more is there."""
        region = image.residency
        if region is None:
            self.sram.evict(0, image.sram_bytes)
            return self.engine(image, self.target, args, grid, memory, None)
        try:
            return self.sram.obey(
                image,
                (region.contents, region.grid),
                args[region.flag] != 0,
                lambda kept: self.engine(image, self.target, args, grid, memory, kept),
            )
        except KeyError:
            raise RefusedError(
                Status.BAD_ARGUMENT, f"what {image.name!r} is to find in SRAM is not there any more"
            ) from None

    def stretch(self, address: int, size: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """Bytes of the device's memory."""
        at = address - MEMORY_BASE
        if at < 0 or at + size > self.memory.size:
            raise RefusedError(
                Status.BAD_ARGUMENT, f"device memory has no {size} bytes at {address:#x}"
            )
        return self.memory[at : at + size]


def parser() -> argparse.ArgumentParser:
    """The worker's command line."""
    made = argparse.ArgumentParser(prog="dsalang._runtime.driver.worker")
    made.add_argument("--target", default="edge", help="a shipped target's name or a target file")
    made.add_argument("--engine", default="fast", choices=("fast", "reference", "riscv"))
    made.add_argument("socket", type=int)
    made.add_argument("memory", type=int)
    return made


def main(arguments: Sequence[str] | None = None, kind: type[Worker] = Worker) -> None:
    """Serve a driver. `kind` lets tests put a faulty device in."""
    given = parser().parse_args(arguments)
    is_file = given.target.endswith(".toml")
    target = Target.from_file(given.target) if is_file else Target.by_name(given.target)
    shared = mmap.mmap(given.memory, os.fstat(given.memory).st_size)
    worker = kind(shared, target, engine_named(given.engine))
    with socket.socket(fileno=given.socket) as doorbell:
        worker.serve(doorbell)


if __name__ == "__main__":
    main()
