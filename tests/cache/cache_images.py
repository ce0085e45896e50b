"""Small images for tests of the cache."""

from __future__ import annotations

from dsalang._backend.image.elf import link_image
from dsalang._backend.image.model import Argument, Image
from dsalang._backend.target import Target

GLUE = """
define void @dsa_kernel(ptr %args, i64 %core, i64 %cores) nounwind {
  ret void
}
"""


def make_image(name: str = "kernel") -> Image:
    """A linked image of a kernel that does nothing."""
    return link_image(
        Image(
            name=name,
            target="edge",
            target_digest=Target.by_name("edge").digest,
            arguments=(Argument("x", "fp32", True),),
            templates=(),
            programs=(),
            credits=(),
            rings=(),
            prints=(),
            asserts=(),
            sram_bytes=0,
            code=b"",
            code_address=0x80000000,
            entry=0,
            glue=GLUE,
        )
    )
