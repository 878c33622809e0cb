/* A failing disk below the whole server: preloaded (LD_PRELOAD), it stands between the program and
 * the C library for the files of the database, and follows a plan from the environment.
 *
 * DISK_FAULT=KIND:SKIP:TIMES, where KIND is
 *   eio      write, error           enospc   write, disk full      short    half a write, then an error
 *   read     read, error            emfile   open, no descriptor   torn     half a write, then kill -9
 *   fsync    sync, error            lie      sync, not done        slow     sync, after 100 ms
 * and SKIP such calls go well before TIMES of them fail.
 *
 * HOLD=FOLDER: a call that opens, writes or syncs waits as long as FOLDER/held exists. SKIP such
 * calls after FOLDER/hold was made, the next one takes that file's name away and makes FOLDER/held.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum kind { NONE, EIO_WRITE, FULL, SHORT, TORN, EIO_READ, FSYNC, LIE, SLOW, NO_DESCRIPTOR, HOLD };

static enum kind kind;
static atomic_long left_to_skip, left_to_fail;

__attribute__((constructor)) static void read_plan(void) {
    static const char *names[] = {"",     "eio",   "enospc", "short", "torn",
                                  "read", "fsync", "lie",    "slow",  "emfile", "hold"};
    char name[16] = "";
    long skip = 0, times = 0;
    const char *plan = getenv("DISK_FAULT");
    if (plan == NULL || sscanf(plan, "%15[a-z]:%ld:%ld", name, &skip, &times) != 3) return;
    for (int i = EIO_WRITE; i <= HOLD; i++)
        if (strcmp(name, names[i]) == 0) kind = i;
    left_to_skip = skip;
    left_to_fail = times;
}

/* Whether this call is one of those that fail. */
static int is_due(void) {
    if (atomic_fetch_sub(&left_to_skip, 1) > 0) return 0;
    return atomic_fetch_sub(&left_to_fail, 1) > 0;
}

static void hold(void) {
    const char *folder = getenv("HOLD");
    if (kind != HOLD || folder == NULL) return;
    char asked[4096], held[4096];
    snprintf(asked, sizeof asked, "%s/hold", folder);
    snprintf(held, sizeof held, "%s/held", folder);
    if (access(asked, F_OK) == 0 && is_due()) rename(asked, held);
    while (access(held, F_OK) == 0) usleep(1000);
}

static int is_database(const char *path) { return strstr(path, "gatepost.db") != NULL; }

static int is_database_descriptor(int descriptor) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_database(path);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* How many bytes of a write arrive before it fails; -1 if it does not. */
static ssize_t arriving(int descriptor, size_t count) {
    if (kind == HOLD && is_database_descriptor(descriptor)) hold();
    int writes = kind == EIO_WRITE || kind == FULL || kind == SHORT || kind == TORN;
    if (!writes || !is_database_descriptor(descriptor) || !is_due()) return -1;
    return kind == SHORT || kind == TORN ? (ssize_t)(count / 2) : 0;
}

static ssize_t fail_write(void) {
    if (kind == TORN) kill(getpid(), SIGKILL);
    errno = kind == FULL ? ENOSPC : EIO;
    return -1;
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off64_t offset) {
    ssize_t part = arriving(descriptor, count);
    if (part < 0) return NEXT(pwrite64)(descriptor, bytes, count, offset);
    if (part > 0) NEXT(pwrite64)(descriptor, bytes, part, offset);
    return fail_write();
}

ssize_t pwrite(int descriptor, const void *bytes, size_t count, off_t offset) {
    return pwrite64(descriptor, bytes, count, offset);
}

ssize_t write(int descriptor, const void *bytes, size_t count) {
    ssize_t part = arriving(descriptor, count);
    if (part < 0) return NEXT(write)(descriptor, bytes, count);
    if (part > 0) NEXT(write)(descriptor, bytes, part);
    return fail_write();
}

static int read_fails(int descriptor) {
    if (kind != EIO_READ || !is_database_descriptor(descriptor) || !is_due()) return 0;
    errno = EIO;
    return 1;
}

ssize_t pread64(int descriptor, void *bytes, size_t count, off64_t offset) {
    return read_fails(descriptor) ? -1 : NEXT(pread64)(descriptor, bytes, count, offset);
}

ssize_t pread(int descriptor, void *bytes, size_t count, off_t offset) {
    return pread64(descriptor, bytes, count, offset);
}

ssize_t read(int descriptor, void *bytes, size_t count) {
    return read_fails(descriptor) ? -1 : NEXT(read)(descriptor, bytes, count);
}

/* Whether the sync is to be done. */
static int syncs(int descriptor, int *outcome) {
    if (kind == HOLD && is_database_descriptor(descriptor)) hold();
    int is_sync = kind == FSYNC || kind == LIE || kind == SLOW;
    *outcome = 0;
    if (!is_sync || !is_database_descriptor(descriptor) || !is_due()) return 1;
    if (kind == SLOW) {
        usleep(100 * 1000);
        return 1;
    }
    if (kind == FSYNC) {
        errno = EIO;
        *outcome = -1;
    }
    return 0;
}

int fdatasync(int descriptor) {
    int outcome;
    return syncs(descriptor, &outcome) ? NEXT(fdatasync)(descriptor) : outcome;
}

int fsync(int descriptor) {
    int outcome;
    return syncs(descriptor, &outcome) ? NEXT(fsync)(descriptor) : outcome;
}

static int open_fails(const char *path) {
    if (kind == HOLD && is_database(path)) hold();
    if (kind != NO_DESCRIPTOR || !is_database(path) || !is_due()) return 0;
    errno = EMFILE;
    return 1;
}

int open64(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, int) : 0;
    va_end(arguments);
    return open_fails(path) ? -1 : NEXT(open64)(path, flags, mode);
}

int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, int) : 0;
    va_end(arguments);
    return open_fails(path) ? -1 : NEXT(open64)(path, flags, mode);
}
