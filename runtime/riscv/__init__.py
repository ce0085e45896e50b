"""The image's RISC-V binary under Unicorn: an independent control core for the reference engine."""
