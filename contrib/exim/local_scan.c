/* Lets Gatepost judge each message that Exim receives, with the call protocol (docs/calling.md).
 *
 * Exim loads it by local_scan_path and calls local_scan() when it has received a complete message, before it
 * replies to the sender. So a rejection is part of the SMTP dialogue, no process is started and no file is
 * written: envelope, client and message are sent over one connection to listeners.call.
 *
 *   verdict     what Exim does
 *   accept      accepts the message
 *   tag         accepts it, with the header fields of the response
 *   quarantine  accepts it and freezes it in its queue, where `exim -bp` lists it
 *   drop        accepts and discards it
 *   reject      replies 550 with the reason
 *   defer       replies 450 with the reason
 *
 * Without a response the message is deferred, unless ON_FAILURE selects another result.
 *
 * Build:  cc -O2 -Wall -shared -fPIC -I/usr/include/exim4 -o local_scan.so local_scan.c
 * Settings are macros: -DPROCEDURE='"/mail"' -DPORT=7887 -DON_FAILURE=LOCAL_SCAN_ACCEPT
 */

#define LOCAL_SCAN
#include <local_scan.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef PROCEDURE
#define PROCEDURE "/mail"       /* a procedure, or the path of a scope */
#endif
#ifndef ADDRESS
#define ADDRESS "127.0.0.1"     /* of listeners.call */
#endif
#ifndef PORT
#define PORT 7887
#endif
#ifndef TIMEOUT_SECONDS
#define TIMEOUT_SECONDS 60      /* for each wait; Exim's local_scan_timeout limits the whole */
#endif
#ifndef ON_FAILURE
#define ON_FAILURE LOCAL_SCAN_TEMPREJECT
#endif

#define LINE_BYTES_MAX 8192

/* Exim refuses to load what was built for another version of these structures. */
int local_scan_version_major(void) { return LOCAL_SCAN_ABI_VERSION_MAJOR; }
int local_scan_version_minor(void) { return LOCAL_SCAN_ABI_VERSION_MINOR; }

/* The connection; reading and writing are buffered apart. */
struct call {
    FILE *in;
    FILE *out;
};

static int call_open(struct call *call)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(PORT) };
    struct timeval timeout = { .tv_sec = TIMEOUT_SECONDS };
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int copy;

    if (descriptor < 0)
        return 0;
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    if (inet_pton(AF_INET, ADDRESS, &address.sin_addr) != 1
        || connect(descriptor, (struct sockaddr *) &address, sizeof address) != 0
        || (copy = dup(descriptor)) < 0) {
        close(descriptor);
        return 0;
    }
    call->in = fdopen(descriptor, "r");
    call->out = fdopen(copy, "w");
    return call->in && call->out;
}

static void call_close(struct call *call)
{
    if (call->in)
        fclose(call->in);
    if (call->out)
        fclose(call->out);
}

/* A field is one line: nothing that a sender chose may begin another. */
static void field(struct call *call, const char *name, const uschar *value)
{
    if (value && !strpbrk((const char *) value, "\r\n"))
        fprintf(call->out, "%s: %s\n", name, (const char *) value);
}

/* Exim keeps header fields that are gone, marked with a star. */
static header_line *present(header_line *header)
{
    while (header && header->type == '*')
        header = header->next;
    return header;
}

/* Length of the message as send_message() writes it, or -1. */
static long long message_size(int body)
{
    struct stat status;
    off_t start = lseek(body, 0, SEEK_CUR);
    long long size = 1;

    if (start < 0 || fstat(body, &status) != 0)
        return -1;
    for (header_line *header = present(header_list); header; header = present(header->next))
        size += header->slen;
    return size + status.st_size - start;
}

static void send_request(struct call *call, long long size)
{
    fprintf(call->out, "CALL/1 " PROCEDURE "\nsize: %lld\nwant: close\n", size);
    field(call, "sender", sender_address);
    for (int i = 0; i < recipients_count; i++)
        field(call, "recipient", recipients_list[i].address);
    field(call, "address", sender_host_address);
    /* Expansions fail where there is nothing, as for mail that was not received by SMTP. */
    field(call, "client", expand_string(US"${if def:sender_helo_name{$sender_helo_name}fail}"));
    field(call, "user", expand_string(US"${if def:authenticated_id{$authenticated_id}fail}"));
    fputc('\n', call->out);
    fflush(call->out);
}

static void send_message(struct call *call, int body)
{
    char block[16384];
    ssize_t count;

    for (header_line *header = present(header_list); header; header = present(header->next))
        fwrite(header->text, 1, header->slen, call->out);
    fputc('\n', call->out);
    while ((count = read(body, block, sizeof block)) > 0)
        fwrite(block, 1, count, call->out);
    fflush(call->out);
}

/* Reads a line without its end; 0 where there is none. */
static int read_line(struct call *call, char *line)
{
    char *end;

    if (!fgets(line, LINE_BYTES_MAX, call->in) || !(end = strchr(line, '\n')))
        return 0;
    *end = 0;
    return 1;
}

/* What follows `prefix`, where the line begins with it. */
static const char *after(const char *line, const char *prefix)
{
    size_t length = strlen(prefix);
    return strncmp(line, prefix, length) == 0 ? line + length : NULL;
}

/* The answer's fields, to the empty line that ends it; 0 where it does not end. */
static int read_fields(struct call *call, int tagged, uschar **reason)
{
    char line[LINE_BYTES_MAX];
    const char *value;

    while (read_line(call, line)) {
        if (!*line)
            return 1;
        if ((value = after(line, "reason: ")))
            *reason = string_copy(CUS value);
        else if (tagged && (value = after(line, "tag: ")))
            header_add(' ', "%s\n", value);
    }
    return 0;
}

/* One of local_scan()'s return codes, or -1 where there is no verdict. */
static int converse(struct call *call, int body, uschar **reason)
{
    char line[LINE_BYTES_MAX];
    long long size = message_size(body);
    const char *verdict;

    if (size < 0)
        return -1;
    send_request(call, size);
    if (!read_line(call, line))
        return -1;
    if (strcmp(line, "NEED body") == 0) {
        send_message(call, body);
        if (!read_line(call, line))
            return -1;
    }
    if ((verdict = after(line, "FAIL ")))
        *reason = string_copy(CUS verdict);
    if (!(verdict = after(line, "DONE ")) || !read_fields(call, strcmp(verdict, "tag") == 0, reason))
        return -1;
    if (strcmp(verdict, "accept") == 0 || strcmp(verdict, "tag") == 0)
        return LOCAL_SCAN_ACCEPT;
    if (strcmp(verdict, "quarantine") == 0)
        return LOCAL_SCAN_ACCEPT_FREEZE;
    if (strcmp(verdict, "drop") == 0) {
        recipients_count = 0;
        return LOCAL_SCAN_ACCEPT;
    }
    if (strcmp(verdict, "reject") == 0)
        return LOCAL_SCAN_REJECT;
    return strcmp(verdict, "defer") == 0 ? LOCAL_SCAN_TEMPREJECT : -1;
}

int local_scan(int body, uschar **return_text)
{
    struct call call = { NULL, NULL };
    uschar *reason = NULL;
    /* A server that goes away while it is written to must not end Exim. */
    void (*former)(int) = signal(SIGPIPE, SIG_IGN);
    int code = call_open(&call) ? converse(&call, body, &reason) : -1;

    call_close(&call);
    signal(SIGPIPE, former);
    if (code < 0) {
        log_write(0, LOG_MAIN, "gatepost: no verdict of %s:%d: %s", ADDRESS, PORT,
                  reason ? (char *) reason : "no answer");
        *return_text = US"mail cannot be judged at the moment";
        return ON_FAILURE;
    }
    *return_text = reason;
    return code;
}
