"""Python source → tile IR. Needs xdsl: import it only when something compiles."""

from .kernel import parse

__all__ = ["parse"]
