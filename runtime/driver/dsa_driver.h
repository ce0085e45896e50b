/* dsa_driver.h - what a device has to offer to run dsalang kernels, as a C ABI.
 *
 * A driver is a shared library that exports these functions. dsalang loads it with DSA_DRIVER=path.so or
 * dsa.Device("path.so") and asks dsa_abi() before anything else.
 *
 * Every function that returns int returns DSA_OK or a negative DSA_ERROR_*; then dsa_last_error() has one
 * sentence about it. All functions may be called from any thread. Nothing of the driver's may outlive
 * dsa_close(). After DSA_ERROR_LOST or DSA_ERROR_CORRUPT a device answers everything but dsa_close() with
 * DSA_ERROR_LOST; other errors leave it as it was.
 *
 * Work on one stream happens in order, work on different streams in any order. dsa_copy_in, dsa_copy_out and
 * dsa_launch may return before the work is done, except that host memory passed to them is the caller's again
 * when dsa_copy_in returns, and filled when dsa_copy_out returns. An error of a launch is reported by the next
 * dsa_event_wait or dsa_copy_out on its stream.
 */
#ifndef DSA_DRIVER_H
#define DSA_DRIVER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DSA_ABI 1u

enum {
    DSA_OK = 0,
    DSA_ERROR_ABI = -1,          /* another ABI version than the driver's */
    DSA_ERROR_BAD_ARGUMENT = -2, /* an address, size, handle or count that makes no sense */
    DSA_ERROR_NO_MEMORY = -3,    /* device memory is exhausted */
    DSA_ERROR_BAD_IMAGE = -4,    /* damaged, or for another device */
    DSA_ERROR_KERNEL = -5,       /* the kernel stopped: assertion, access out of bounds, ... */
    DSA_ERROR_TIMEOUT = -6,      /* not done yet */
    DSA_ERROR_LOST = -7,         /* the device is gone */
    DSA_ERROR_CORRUPT = -8       /* the device answered nonsense */
};

typedef struct dsa_device dsa_device;

typedef struct dsa_properties {
    uint32_t size;          /* in: sizeof(dsa_properties) of the caller; a driver fills no more than that */
    uint32_t cores;
    uint32_t clock_mhz;
    uint32_t align_bytes;   /* every allocation starts at a multiple of this, at least 64 */
    uint64_t memory_bytes;  /* of device memory in total */
    char target[64];        /* the target that images must be compiled for: a shipped one's name, NUL-terminated */
    char target_digest[32]; /* dsa.Target.digest of it */
} dsa_properties;

/* The ABI version that the library implements: DSA_ABI of the header that it was built with. */
uint32_t dsa_abi(void);

/* Open device number `index`. `abi` is the caller's DSA_ABI. */
int dsa_open(uint32_t abi, uint32_t index, dsa_device **device);
int dsa_get_properties(dsa_device *device, dsa_properties *properties);

/* Device memory. Addresses are what kernels get as pointer arguments; 0 is never one. What is freed must not be
 * used by work that is still running. */
int dsa_alloc(dsa_device *device, uint64_t bytes, uint64_t *address);
int dsa_free(dsa_device *device, uint64_t address);
int dsa_copy_in(dsa_device *device, uint32_t stream, uint64_t to, const void *from, uint64_t bytes);
int dsa_copy_out(dsa_device *device, uint32_t stream, void *to, uint64_t from, uint64_t bytes);

/* Load an image: a whole ELF file as dsalang makes it. */
int dsa_load_image(dsa_device *device, const void *file, uint64_t bytes, uint32_t *image);

/* Run a kernel: one i64 per kernel argument (address, sign-extended integer, or float bits). */
int dsa_launch(dsa_device *device, uint32_t stream, uint32_t image, const int64_t *arguments,
               uint32_t count, const uint32_t grid[3]);

/* An event is reached when everything put on its stream before it is done. */
int dsa_event_record(dsa_device *device, uint32_t stream, uint64_t *event);
int dsa_event_wait(dsa_device *device, uint64_t event, uint32_t timeout_ms);
/* Device time between two events that have been waited for. */
int dsa_event_elapsed(dsa_device *device, uint64_t start, uint64_t end, double *microseconds);

/* The calling thread's last error, "" when it had none; valid until its next call. */
const char *dsa_last_error(void);

/* Let go of everything; a kernel that still runs after a moment is given up. `device` may be lost, or NULL. */
void dsa_close(dsa_device *device);

#ifdef __cplusplus
}
#endif

#endif
