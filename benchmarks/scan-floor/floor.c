/* The floor of SCAN: all patterns that Vectorscan accepts, run once over each view of each message.
 *
 * A rule engine cannot be cheaper than finding its patterns. This program does nothing else: it
 * decodes no MIME, evaluates no meta rule, adds no scores and keeps no names of hits. Vectorscan is
 * the fastest library known for many patterns at once, so its time is the yardstick.
 *
 * Usage: floor PATTERNS RUNS MESSAGE...
 *
 * PATTERNS has a line for each pattern: VIEW, flags ("i", "s", "m", "x" or "-") and the expression,
 * separated by TABs. The views are approximations that cost a little less than the real ones:
 * "header" is the header of the message, "body" the rest as it arrived, "full" the whole message.
 *
 * Printed: accepted and refused patterns of each view, matches, and CPU time per message.
 */

#include <hs/hs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { VIEWS = 3, LINE_BYTES_MAX = 64 * 1024, MESSAGE_BYTES_MAX = 64 * 1024 * 1024 };

static const char *const view_names[VIEWS] = {"header", "body", "full"};

struct view {
    char **expressions;
    unsigned *flags;
    unsigned *ids;
    unsigned count;
    unsigned refused;
    hs_database_t *database;
};

struct message {
    char *bytes;
    size_t size;
    size_t header_size;
};

static void fail(const char *what, const char *detail) {
    fprintf(stderr, "floor: %s: %s\n", what, detail);
    exit(1);
}

static void *grown(void *memory, size_t size) {
    memory = realloc(memory, size);
    if (memory == NULL) fail("memory", "exhausted");
    return memory;
}

static unsigned flags_of(const char *letters) {
    /* One match of a pattern is enough for a rule, as it is for Gatepost's prefilter. */
    unsigned flags = HS_FLAG_SINGLEMATCH;
    for (; *letters != '\0'; letters++) {
        if (*letters == 'i') flags |= HS_FLAG_CASELESS;
        if (*letters == 's') flags |= HS_FLAG_DOTALL;
        if (*letters == 'm') flags |= HS_FLAG_MULTILINE;
    }
    return flags;
}

/* Vectorscan refuses a whole set for one pattern, so each is tried alone first. */
static int is_accepted(const char *expression, unsigned flags) {
    hs_expr_info_t *information = NULL;
    hs_compile_error_t *error = NULL;
    hs_database_t *database = NULL;
    int is_supported = hs_expression_info(expression, flags, &information, &error) == HS_SUCCESS;
    free(information);
    if (is_supported) {
        is_supported = hs_compile(expression, flags, HS_MODE_BLOCK, NULL, &database, &error) == HS_SUCCESS;
        hs_free_database(database);
    }
    if (error != NULL) hs_free_compile_error(error);
    return is_supported;
}

static void add(struct view *view, const char *expression, unsigned flags) {
    if (!is_accepted(expression, flags)) {
        view->refused++;
        return;
    }
    size_t count = view->count + 1;
    view->expressions = grown(view->expressions, count * sizeof *view->expressions);
    view->flags = grown(view->flags, count * sizeof *view->flags);
    view->ids = grown(view->ids, count * sizeof *view->ids);
    view->expressions[view->count] = strdup(expression);
    view->flags[view->count] = flags;
    view->ids[view->count] = view->count;
    view->count++;
}

static void read_patterns(const char *path, struct view *views) {
    FILE *file = fopen(path, "r");
    if (file == NULL) fail(path, "cannot be opened");
    static char line[LINE_BYTES_MAX];
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *flags = strchr(line, '\t');
        char *expression = flags == NULL ? NULL : strchr(flags + 1, '\t');
        if (expression == NULL) continue;
        *flags++ = '\0';
        *expression++ = '\0';
        for (int at = 0; at < VIEWS; at++)
            if (strcmp(line, view_names[at]) == 0) add(&views[at], expression, flags_of(flags));
    }
    fclose(file);
}

static void compile(struct view *view, const char *name) {
    if (view->count == 0) return;
    hs_compile_error_t *error = NULL;
    const char *const *expressions = (const char *const *)view->expressions;
    if (hs_compile_multi(expressions, view->flags, view->ids, view->count, HS_MODE_BLOCK, NULL,
                         &view->database, &error) != HS_SUCCESS)
        fail(name, error == NULL ? "does not compile" : error->message);
}

static struct message read_message(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) fail(path, "cannot be opened");
    struct message message = {NULL, 0, 0};
    size_t room = 0, got;
    do {
        room += 256 * 1024;
        message.bytes = grown(message.bytes, room);
        got = fread(message.bytes + message.size, 1, room - message.size, file);
        message.size += got;
    } while (got > 0 && message.size < MESSAGE_BYTES_MAX);
    fclose(file);
    message.header_size = message.size;
    for (size_t at = 1; at < message.size; at++) {
        size_t line = message.bytes[at - 1] == '\r' && at > 1 ? at - 2 : at - 1;
        if (message.bytes[at] == '\n' && message.bytes[line] == '\n') {
            message.header_size = at + 1;
            break;
        }
    }
    return message;
}

static int count_match(unsigned id, unsigned long long from, unsigned long long to, unsigned flags, void *matches) {
    (void)id, (void)from, (void)to, (void)flags;
    ++*(unsigned long long *)matches;
    return 0;
}

static unsigned long long scan(const struct view *views, const struct message *message, hs_scratch_t *scratch) {
    const char *starts[VIEWS] = {message->bytes, message->bytes + message->header_size, message->bytes};
    size_t sizes[VIEWS] = {message->header_size, message->size - message->header_size, message->size};
    unsigned long long matches = 0;
    for (int at = 0; at < VIEWS; at++)
        if (views[at].database != NULL)
            hs_scan(views[at].database, starts[at], (unsigned)sizes[at], 0, scratch, count_match, &matches);
    return matches;
}

static double cpu_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
    if (argc < 4) fail("usage", "floor PATTERNS RUNS MESSAGE...");
    static struct view views[VIEWS];
    read_patterns(argv[1], views);
    hs_scratch_t *scratch = NULL;
    for (int at = 0; at < VIEWS; at++) {
        compile(&views[at], view_names[at]);
        if (views[at].database != NULL) hs_alloc_scratch(views[at].database, &scratch);
        printf("%s: %u patterns, %u refused\n", view_names[at], views[at].count, views[at].refused);
    }
    int runs = atoi(argv[2]), count = argc - 3;
    struct message *messages = grown(NULL, (size_t)count * sizeof *messages);
    for (int at = 0; at < count; at++) messages[at] = read_message(argv[at + 3]);
    unsigned long long matches = 0;
    /* The first pass touches all memory and is not measured. */
    for (int at = 0; at < count; at++) matches += scan(views, &messages[at], scratch);
    double begin = cpu_seconds();
    for (int run = 0; run < runs; run++)
        for (int at = 0; at < count; at++) scan(views, &messages[at], scratch);
    double used = cpu_seconds() - begin;
    printf("%d messages, %llu matches, %.1f us of CPU per message\n", count, matches,
           used / ((double)runs * count) * 1e6);
    return 0;
}
