/* A failing disk below the whole server: preloaded (LD_PRELOAD), it stands between the program and
 * the C library for the files of the database, and follows a plan from the environment.
 *
 * DISK_FAULT=KIND:SKIP:TIMES, where KIND is
 *   eio      write, error           enospc   write, disk full      short    half a write, then an error
 *   fsync    sync, error            slow     sync, after 300 ms    emfile   open, no descriptor left
 * and SKIP such calls go well before TIMES of them fail.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum kind { NONE, EIO_WRITE, FULL, SHORT, FSYNC, SLOW, NO_DESCRIPTOR };

static enum kind kind;
static atomic_long left_to_skip, left_to_fail;

__attribute__((constructor)) static void read_plan(void) {
    static const char *names[] = {"", "eio", "enospc", "short", "fsync", "slow", "emfile"};
    char name[16] = "";
    long skip = 0, times = 0;
    const char *plan = getenv("DISK_FAULT");
    if (plan == NULL || sscanf(plan, "%15[a-z]:%ld:%ld", name, &skip, &times) != 3) return;
    for (int i = EIO_WRITE; i <= NO_DESCRIPTOR; i++)
        if (strcmp(name, names[i]) == 0) kind = i;
    left_to_skip = skip;
    left_to_fail = times;
}

/* Whether this call is one of those that fail. */
static int is_due(void) {
    if (atomic_fetch_sub(&left_to_skip, 1) > 0) return 0;
    return atomic_fetch_sub(&left_to_fail, 1) > 0;
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

static ssize_t faulty_write(int descriptor, size_t count, size_t *arriving) {
    *arriving = count;
    if ((kind != EIO_WRITE && kind != FULL && kind != SHORT) || !is_database_descriptor(descriptor) || !is_due())
        return 0;
    errno = kind == FULL ? ENOSPC : EIO;
    if (kind != SHORT) return -1;
    *arriving = count / 2;
    return -1;
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off64_t offset) {
    size_t arriving;
    if (faulty_write(descriptor, count, &arriving) == 0)
        return NEXT(pwrite64)(descriptor, bytes, count, offset);
    int cause = errno;
    if (arriving < count) NEXT(pwrite64)(descriptor, bytes, arriving, offset);
    errno = cause;
    return -1;
}

ssize_t pwrite(int descriptor, const void *bytes, size_t count, off_t offset) {
    return pwrite64(descriptor, bytes, count, offset);
}

ssize_t write(int descriptor, const void *bytes, size_t count) {
    size_t arriving;
    if (faulty_write(descriptor, count, &arriving) == 0)
        return NEXT(write)(descriptor, bytes, count);
    int cause = errno;
    if (arriving < count) NEXT(write)(descriptor, bytes, arriving);
    errno = cause;
    return -1;
}

static int sync_fails(int descriptor) {
    if ((kind != FSYNC && kind != SLOW) || !is_database_descriptor(descriptor) || !is_due()) return 0;
    if (kind == SLOW) {
        usleep(300 * 1000);
        return 0;
    }
    errno = EIO;
    return 1;
}

int fdatasync(int descriptor) {
    return sync_fails(descriptor) ? -1 : NEXT(fdatasync)(descriptor);
}

int fsync(int descriptor) { return sync_fails(descriptor) ? -1 : NEXT(fsync)(descriptor); }

static int open_fails(const char *path) {
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
