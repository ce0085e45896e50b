/* A driver as a kernel driver would be: device memory and a mailbox in shared memory, a socket as the doorbell.
 *
 * The device is a process, `dsalang._runtime.driver.worker`: $DSA_WORKER is its command line. Device memory is
 * $DSA_WORKER_MIB MiB (64). The device does one command at a time; a launch returns when it has been posted, and
 * whatever needs its result waits. All streams are one.
 */
#define _GNU_SOURCE
#include "dsa_driver.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef DRIVER_ABI
#define DRIVER_ABI DSA_ABI
#endif

#define MAGIC 0x44534131u /* "DSA1" */
#define MEMORY_BASE 0x100000000ull
#define ALIGN 4096ull
#define BLOCKS 1024
#define ARGUMENTS 256
#define EVENTS 4096
#define START_MS 60000
#define CLOSE_MS 500

enum { HELLO = 1, LOAD = 2, LAUNCH = 3 };

/* mailbox.py has the same structures. */
typedef struct {
    uint64_t address, bytes;
} block;

typedef struct {
    uint32_t magic, sequence, operation, image;
    uint64_t memory_bytes, image_address, image_bytes;
    uint32_t grid[3], arguments, blocks, reserved;
    int64_t argument[ARGUMENTS];
    block block[BLOCKS]; /* live allocations, by address */
} command;

typedef struct {
    uint32_t magic, sequence;
    int32_t status;
    uint32_t image;
    double microseconds, bytes_per_microsecond;
    uint32_t cores, clock_mhz;
    char target[64], target_digest[32];
    char message[4096];
} reply;

typedef struct {
    command command;
    reply reply;
} mailbox;

#define MEMORY_OFFSET ((sizeof(mailbox) + ALIGN - 1) / ALIGN * ALIGN)

typedef struct {
    uint64_t id;
    uint32_t sequence;
    int reached;
    double time;
} event;

struct dsa_device {
    pthread_mutex_t lock;
    pid_t worker;
    int doorbell; /* a byte goes out for a command and comes in for its reply */
    mailbox *box;
    uint64_t memory_bytes;
    block block[BLOCKS];
    uint32_t blocks;
    uint32_t posted, done; /* sequence numbers of commands; equal when the device is idle */
    double clock;
    reply hello, last;
    int failed; /* status of a launch that nobody has heard of yet */
    char failure[sizeof(((reply *)0)->message)];
    int lost;
    char reason[256];
    event event[EVENTS];
    uint64_t events;
};

static _Thread_local char last_error[sizeof(((reply *)0)->message) + 128];

static int error(int status, const char *format, ...) {
    va_list rest;
    va_start(rest, format);
    vsnprintf(last_error, sizeof last_error, format, rest);
    va_end(rest);
    return status;
}

const char *dsa_last_error(void) { return last_error; }

uint32_t dsa_abi(void) { return DRIVER_ABI; }

/* The device is gone for good: say why, now and at every later call. */
static int lose(dsa_device *d, int status, const char *reason) {
    if (!d->lost) {
        d->lost = 1;
        snprintf(d->reason, sizeof d->reason, "%s", reason);
        if (d->worker > 0) {
            kill(d->worker, SIGKILL);
            waitpid(d->worker, NULL, 0);
            d->worker = 0;
        }
    }
    return error(status, "%s", d->reason);
}

static int died(dsa_device *d) {
    char reason[sizeof d->reason] = "the device's worker process has ended";
    int how = 0;
    for (int tries = 0; tries < 100; tries++) { /* the socket closes a moment before the process is gone */
        if (waitpid(d->worker, &how, WNOHANG) == d->worker) {
            d->worker = 0;
            if (WIFSIGNALED(how))
                snprintf(reason, sizeof reason, "the device's worker process was killed by signal %d", WTERMSIG(how));
            else
                snprintf(reason, sizeof reason, "the device's worker process ended with status %d", WEXITSTATUS(how));
            break;
        }
        usleep(1000);
    }
    return lose(d, DSA_ERROR_LOST, reason);
}

static int check_reply(dsa_device *d) {
    reply *r = &d->last;
    const char *wrong = NULL;
    if (r->magic != MAGIC) wrong = "it has no magic number";
    else if (r->sequence != d->posted) wrong = "it answers another command";
    else if (r->status > DSA_OK || r->status < DSA_ERROR_CORRUPT) wrong = "its status does not exist";
    else if (!isfinite(r->microseconds) || r->microseconds < 0) wrong = "its time is no time";
    else if (!memchr(r->message, 0, sizeof r->message)) wrong = "its message does not end";
    if (!wrong) return DSA_OK;
    char reason[sizeof d->reason];
    snprintf(reason, sizeof reason, "the device sent a corrupt reply: %s", wrong);
    return lose(d, DSA_ERROR_CORRUPT, reason);
}

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Wait until the device is idle. */
static int settle(dsa_device *d, int timeout_ms) {
    if (d->lost) return error(DSA_ERROR_LOST, "%s", d->reason);
    int64_t deadline = now_ms() + timeout_ms;
    while (d->done != d->posted) {
        struct pollfd p = {.fd = d->doorbell, .events = POLLIN};
        int64_t left = timeout_ms < 0 ? -1 : deadline - now_ms();
        int n = poll(&p, 1, timeout_ms < 0 ? -1 : left > 0 ? (int)left : 0);
        if (n < 0 && errno == EINTR) continue;
        if (n == 0) return error(DSA_ERROR_TIMEOUT, "the device is still busy after %d ms", timeout_ms);
        char byte;
        if (n < 0 || recv(d->doorbell, &byte, 1, 0) != 1) return died(d);
        d->last = d->box->reply;
        int status = check_reply(d);
        if (status) return status;
        d->done = d->posted;
        d->clock += d->last.microseconds;
        for (int i = 0; i < EVENTS; i++)
            if (!d->event[i].reached && d->event[i].id && d->event[i].sequence == d->done) {
                d->event[i].reached = 1;
                d->event[i].time = d->clock;
            }
        if (d->last.status && d->box->command.operation == LAUNCH && !d->failed) {
            d->failed = d->last.status;
            memcpy(d->failure, d->last.message, sizeof d->failure);
        }
    }
    return DSA_OK;
}

static int report_failure(dsa_device *d) {
    int status = d->failed;
    d->failed = 0;
    return status ? error(status, "%s", d->failure) : DSA_OK;
}

/* Ring the doorbell for the command in the mailbox. */
static int post(dsa_device *d, uint32_t operation) {
    command *c = &d->box->command;
    c->magic = MAGIC;
    c->sequence = ++d->posted;
    c->operation = operation;
    c->memory_bytes = d->memory_bytes;
    memset(&d->box->reply, 0, sizeof d->box->reply);
    __sync_synchronize();
    return send(d->doorbell, "!", 1, MSG_NOSIGNAL) == 1 ? DSA_OK : died(d);
}

/* Post a command and wait for its reply. */
static int ask(dsa_device *d, uint32_t operation, int timeout_ms) {
    int status = post(d, operation);
    if (!status) status = settle(d, timeout_ms);
    if (!status && d->last.status) status = error(d->last.status, "%s", d->last.message);
    return status;
}

static int high(int fd) { /* out of the way of 3 and 4, which the worker gets */
    int moved = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 16), failure = errno;
    if (fd >= 0) close(fd);
    errno = failure;
    return moved;
}

static int shared_file(void) {
#ifdef __linux__
    return memfd_create("dsa", MFD_CLOEXEC);
#else
    FILE *file = tmpfile();
    int fd = file ? fcntl(fileno(file), F_DUPFD_CLOEXEC, 16) : -1;
    if (file) fclose(file);
    return fd;
#endif
}

/* Run the worker with its ends of things as descriptors 3 and 4. */
static int spawn(dsa_device *d, const char *worker, const int theirs[2]) {
    char line[4096];
    snprintf(line, sizeof line, "exec %s 3 4", worker);
    char *argv[] = {"sh", "-c", line, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (int i = 0; i < 2; i++) posix_spawn_file_actions_adddup2(&actions, theirs[i], 3 + i);
    extern char **environ;
    int failed = posix_spawn(&d->worker, "/bin/sh", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (!failed) return DSA_OK;
    d->worker = 0;
    return error(DSA_ERROR_LOST, "cannot start the worker: %s", strerror(failed));
}

static int start(dsa_device *d) {
    const char *worker = getenv("DSA_WORKER"), *mib = getenv("DSA_WORKER_MIB");
    if (!worker) return error(DSA_ERROR_BAD_ARGUMENT, "DSA_WORKER is not set");
    d->memory_bytes = (mib ? strtoull(mib, NULL, 10) : 64) << 20;
    uint64_t total = MEMORY_OFFSET + d->memory_bytes;
    int ends[2], theirs[2] = {-1, high(shared_file())}, status = DSA_OK;
    void *mapped = MAP_FAILED;
    if (theirs[1] >= 0 && !ftruncate(theirs[1], (off_t)total))
        mapped = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED, theirs[1], 0);
    if (mapped == MAP_FAILED) {
        status = error(DSA_ERROR_NO_MEMORY, "cannot share %llu bytes: %s", (unsigned long long)total, strerror(errno));
    } else if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) {
        munmap(mapped, total);
        status = error(DSA_ERROR_NO_MEMORY, "no doorbell: %s", strerror(errno));
    } else {
        d->box = mapped;
        theirs[0] = high(ends[0]);
        d->doorbell = high(ends[1]);
        status = spawn(d, worker, theirs);
    }
    for (int i = 0; i < 2; i++)
        if (theirs[i] >= 0) close(theirs[i]);
    if (!status) status = ask(d, HELLO, START_MS);
    d->hello = d->last;
    if (!status && !(d->hello.bytes_per_microsecond > 0))
        status = error(DSA_ERROR_CORRUPT, "the device moves no bytes");
    return status;
}

int dsa_open(uint32_t abi, uint32_t index, dsa_device **device) {
    *device = NULL;
    if (abi != DRIVER_ABI)
        return error(DSA_ERROR_ABI, "the driver speaks ABI version %u, not %u", DRIVER_ABI, abi);
    if (index != 0) return error(DSA_ERROR_BAD_ARGUMENT, "there is no device %u", index);
    dsa_device *d = calloc(1, sizeof *d);
    if (!d) return error(DSA_ERROR_NO_MEMORY, "no memory for the driver");
    pthread_mutex_init(&d->lock, NULL);
    d->doorbell = -1;
    int status = start(d);
    if (status) {
        char message[sizeof last_error];
        memcpy(message, last_error, sizeof message);
        dsa_close(d);
        memcpy(last_error, message, sizeof message);
        return status;
    }
    *device = d;
    return DSA_OK;
}

void dsa_close(dsa_device *d) {
    if (!d) return;
    if (!d->lost && d->worker > 0 && settle(d, CLOSE_MS)) lose(d, DSA_ERROR_LOST, "the device hangs");
    if (d->doorbell >= 0) close(d->doorbell); /* the worker ends when its doorbell is gone */
    if (d->worker > 0) waitpid(d->worker, NULL, 0);
    if (d->box) munmap(d->box, MEMORY_OFFSET + d->memory_bytes);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

int dsa_get_properties(dsa_device *d, dsa_properties *properties) {
    dsa_properties all = {.cores = d->hello.cores, .clock_mhz = d->hello.clock_mhz, .align_bytes = ALIGN,
                          .memory_bytes = d->memory_bytes};
    if (properties->size < 2 * sizeof(uint32_t))
        return error(DSA_ERROR_BAD_ARGUMENT, "properties->size is not set");
    memcpy(all.target, d->hello.target, sizeof all.target);
    memcpy(all.target_digest, d->hello.target_digest, sizeof all.target_digest);
    all.size = properties->size < sizeof all ? properties->size : sizeof all;
    memcpy(properties, &all, all.size);
    return DSA_OK;
}

/* Memory */

static int allocate(dsa_device *d, uint64_t bytes, uint64_t *address) {
    uint64_t at = MEMORY_BASE, size = (bytes + !bytes + ALIGN - 1) / ALIGN * ALIGN;
    uint32_t i;
    for (i = 0; i < d->blocks && d->block[i].address - at < size; i++)
        at = (d->block[i].address + d->block[i].bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (bytes > d->memory_bytes || at + size > MEMORY_BASE + d->memory_bytes || d->blocks == BLOCKS) {
        uint64_t used = 0;
        for (uint32_t k = 0; k < d->blocks; k++) used += d->block[k].bytes;
        return error(DSA_ERROR_NO_MEMORY, "device memory is exhausted: %llu bytes asked for, %llu of %llu in use in %u blocks",
                     (unsigned long long)bytes, (unsigned long long)used,
                     (unsigned long long)d->memory_bytes, d->blocks);
    }
    memmove(d->block + i + 1, d->block + i, (d->blocks - i) * sizeof(block));
    d->block[i] = (block){at, bytes + !bytes};
    d->blocks++;
    *address = at;
    return DSA_OK;
}

static int release(dsa_device *d, uint64_t address) {
    for (uint32_t i = 0; i < d->blocks; i++)
        if (d->block[i].address == address) {
            d->blocks--;
            memmove(d->block + i, d->block + i + 1, (d->blocks - i) * sizeof(block));
            return DSA_OK;
        }
    return error(DSA_ERROR_BAD_ARGUMENT, "%#llx is not the address of an allocation", (unsigned long long)address);
}

/* Where a range of device memory is, NULL when no allocation holds it. */
static char *host(dsa_device *d, uint64_t address, uint64_t bytes) {
    for (uint32_t i = 0; i < d->blocks; i++) {
        uint64_t at = address - d->block[i].address;
        if (address >= d->block[i].address && at <= d->block[i].bytes && bytes <= d->block[i].bytes - at)
            return (char *)d->box + MEMORY_OFFSET + (address - MEMORY_BASE);
    }
    error(DSA_ERROR_BAD_ARGUMENT, "no allocation holds %llu bytes at %#llx", (unsigned long long)bytes,
          (unsigned long long)address);
    return NULL;
}

#define LOCKED(call)                     \
    pthread_mutex_lock(&d->lock);        \
    int status = settle_first ? settle(d, -1) : d->lost ? error(DSA_ERROR_LOST, "%s", d->reason) : DSA_OK; \
    if (!status) status = (call);        \
    pthread_mutex_unlock(&d->lock);      \
    return status

int dsa_alloc(dsa_device *d, uint64_t bytes, uint64_t *address) {
    enum { settle_first = 0 };
    LOCKED(allocate(d, bytes, address));
}

int dsa_free(dsa_device *d, uint64_t address) {
    enum { settle_first = 0 };
    LOCKED(release(d, address));
}

static int copy(dsa_device *d, uint64_t device, void *to, const void *from, uint64_t bytes) {
    char *memory = host(d, device, bytes);
    if (!memory) return DSA_ERROR_BAD_ARGUMENT;
    memcpy(to ? to : memory, from ? from : memory, bytes);
    d->clock += (double)bytes / d->hello.bytes_per_microsecond;
    return to ? report_failure(d) : DSA_OK;
}

int dsa_copy_in(dsa_device *d, uint32_t stream, uint64_t to, const void *from, uint64_t bytes) {
    (void)stream;
    enum { settle_first = 1 };
    LOCKED(copy(d, to, NULL, from, bytes));
}

int dsa_copy_out(dsa_device *d, uint32_t stream, void *to, uint64_t from, uint64_t bytes) {
    (void)stream;
    enum { settle_first = 1 };
    LOCKED(copy(d, from, to, NULL, bytes));
}

/* Kernels */

static int load(dsa_device *d, const void *file, uint64_t bytes, uint32_t *image) {
    uint64_t address;
    int status = allocate(d, bytes, &address);
    if (status) return status;
    memcpy(host(d, address, bytes), file, bytes);
    d->box->command.image_address = address;
    d->box->command.image_bytes = bytes;
    status = ask(d, LOAD, -1);
    release(d, address);
    if (!status) *image = d->last.image;
    return status;
}

int dsa_load_image(dsa_device *d, const void *file, uint64_t bytes, uint32_t *image) {
    enum { settle_first = 1 };
    LOCKED(load(d, file, bytes, image));
}

static int launch(dsa_device *d, uint32_t image, const int64_t *arguments, uint32_t count, const uint32_t grid[3]) {
    command *c = &d->box->command;
    if (count > ARGUMENTS) return error(DSA_ERROR_BAD_ARGUMENT, "%u arguments, more than %d", count, ARGUMENTS);
    c->image = image;
    c->arguments = count;
    if (count) memcpy(c->argument, arguments, count * sizeof *arguments);
    memcpy(c->grid, grid, sizeof c->grid);
    c->blocks = d->blocks;
    memcpy(c->block, d->block, d->blocks * sizeof(block));
    return post(d, LAUNCH);
}

int dsa_launch(dsa_device *d, uint32_t stream, uint32_t image, const int64_t *arguments, uint32_t count,
               const uint32_t grid[3]) {
    (void)stream;
    enum { settle_first = 1 };
    LOCKED(launch(d, image, arguments, count, grid));
}

/* Events */

static event *find(dsa_device *d, uint64_t id) {
    event *e = &d->event[id % EVENTS];
    if (id && e->id == id) return e;
    error(DSA_ERROR_BAD_ARGUMENT, "there is no event %llu", (unsigned long long)id);
    return NULL;
}

static int record(dsa_device *d, uint64_t *id) {
    *id = ++d->events;
    d->event[*id % EVENTS] = (event){*id, d->posted, d->done == d->posted, d->clock};
    return DSA_OK;
}

static int wait_for(dsa_device *d, uint64_t id, uint32_t timeout_ms) {
    event *e = find(d, id);
    if (!e) return DSA_ERROR_BAD_ARGUMENT;
    int status = e->reached ? DSA_OK : settle(d, timeout_ms > 1u << 30 ? -1 : (int)timeout_ms);
    return status ? status : report_failure(d);
}

static int elapsed(dsa_device *d, uint64_t start, uint64_t end, double *microseconds) {
    event *a = find(d, start), *b = a ? find(d, end) : NULL;
    if (!b) return DSA_ERROR_BAD_ARGUMENT;
    if (!a->reached || !b->reached) return error(DSA_ERROR_TIMEOUT, "an event has not been reached yet");
    *microseconds = b->time - a->time;
    return DSA_OK;
}

int dsa_event_record(dsa_device *d, uint32_t stream, uint64_t *id) {
    (void)stream;
    enum { settle_first = 0 };
    LOCKED(record(d, id));
}

int dsa_event_wait(dsa_device *d, uint64_t id, uint32_t timeout_ms) {
    enum { settle_first = 0 };
    LOCKED(wait_for(d, id, timeout_ms));
}

int dsa_event_elapsed(dsa_device *d, uint64_t start, uint64_t end, double *microseconds) {
    enum { settle_first = 0 };
    LOCKED(elapsed(d, start, end, microseconds));
}
