"""Devices behind a C library: `dsa_driver.h`, its Python binding, and an emulator process that plays a device."""
