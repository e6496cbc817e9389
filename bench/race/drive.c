/* The load generator of the race, the same for every peer: closed loops over sockets that are connected and logged in.
 *
 * Each connection sends its request, reads until the reply holds a mark as often as it must, and sends it again. The
 * caller knows the protocols; this program only counts marks, so it costs the same for all of them.
 *
 *   drive MARK MARKS MESSAGES SECONDS MAX FD…   with [u32 length][request] for each FD on standard input
 *
 * MARK is in hexadecimal, or "amqp" for publisher confirms, which may stand for many messages. MARKS and MESSAGES are
 * per request. It stops after SECONDS or MAX messages, waits for the replies under way, and prints
 * "messages seconds p50_us p99_us". A reply that does not come ends it with 3, and with what was read.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = 1 << 18, TAIL = 32, OUTSTANDING = 4096, SAMPLES = 1 << 20, STALL_MS = 20000, CONFIRM = 13 };

struct line {
    int fd, is_busy;
    uint32_t length, sent;
    char *request;
    uint64_t marks, due, began;
    uint64_t confirmed, published, single_count, singles[OUTSTANDING];
    size_t held, seen;
    char buffer[TAIL + BUFFER];
};

static unsigned char mark[TAIL];
static size_t mark_length;
static int is_amqp;
static uint32_t samples[SAMPLES];
static uint64_t sample_count;

static uint64_t now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

static void fail(const struct line *line, const char *what) {
    fprintf(stderr, "drive: %s; last read: ", what);
    for (size_t at = 0; line && at < line->seen && at < 300; at++) {
        unsigned char byte = (unsigned char)line->buffer[at];
        fputc(byte >= 32 && byte < 127 ? byte : '.', stderr);
    }
    fputc('\n', stderr);
    exit(3);
}

/* A confirm names the message, or all up to it. */
static void confirm(struct line *line, const unsigned char *frame) {
    uint64_t tag = 0, kept = 0;
    for (int at = 4; at < 12; at++) tag = tag << 8 | frame[at];
    if (frame[12] && tag > line->confirmed) {
        line->confirmed = tag;
        for (uint64_t at = 0; at < line->single_count; at++)
            if (line->singles[at] > tag) line->singles[kept++] = line->singles[at];
        line->single_count = kept;
    } else if (tag > line->confirmed && line->single_count < OUTSTANDING) {
        line->singles[line->single_count++] = tag;
    }
    line->marks = line->due - (line->published - line->confirmed - line->single_count);
}

static void count_marks(struct line *line) {
    size_t from = 0, whole = is_amqp ? CONFIRM : mark_length;
    char *found;
    while ((found = memmem(line->buffer + from, line->held - from, mark, mark_length))) {
        size_t at = (size_t)(found - line->buffer);
        if (line->held - at < whole) break;
        if (is_amqp) confirm(line, (unsigned char *)found);
        else line->marks++;
        from = at + whole;
    }
    size_t rest = line->held - from;
    if (rest >= whole) rest = whole - 1;
    memmove(line->buffer, line->buffer + line->held - rest, rest);
    line->held = rest;
}

static void push(struct line *line) {
    while (line->sent < line->length) {
        ssize_t wrote = send(line->fd, line->request + line->sent, line->length - line->sent, MSG_NOSIGNAL);
        if (wrote < 0 && errno == EAGAIN) return;
        if (wrote < 0) fail(line, strerror(errno));
        line->sent += (uint32_t)wrote;
    }
}

static void begin(struct line *line, uint64_t messages) {
    line->is_busy = 1;
    line->sent = 0;
    line->marks = 0;
    line->published += messages;
    line->began = now_ns();
    push(line);
}

/* Whether the reply is whole. */
static int pull(struct line *line) {
    for (;;) {
        ssize_t read_bytes = recv(line->fd, line->buffer + line->held, BUFFER, 0);
        if (read_bytes < 0 && errno == EAGAIN) return 0;
        if (read_bytes <= 0) fail(line, read_bytes ? strerror(errno) : "the peer hung up");
        line->held += (size_t)read_bytes;
        line->seen = line->held;
        count_marks(line);
        if (line->marks > line->due) fail(line, "more marks than messages");
        if (line->marks == line->due) return 1;
    }
}

static int by_size(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static void must_read(void *into, size_t length) {
    if (fread(into, 1, length, stdin) != length) fail(NULL, "standard input ended early");
}

int main(int argc, char **argv) {
    if (argc < 7) return 2;
    is_amqp = !strcmp(argv[1], "amqp");
    const char *hex = is_amqp ? "003c0050" : argv[1];
    for (mark_length = 0; hex[2 * mark_length] && mark_length < TAIL; mark_length++)
        sscanf(hex + 2 * mark_length, "%2hhx", &mark[mark_length]);
    uint64_t due = strtoull(argv[2], NULL, 10), messages = strtoull(argv[3], NULL, 10), done = 0, asked = 0;
    double seconds = atof(argv[4]);
    uint64_t max = strtoull(argv[5], NULL, 10);
    int count = argc - 6, poll_fd = epoll_create1(0), busy = 0;
    struct line *lines = calloc((size_t)count, sizeof *lines);
    if (!lines || poll_fd < 0) return 2;
    for (int at = 0; at < count; at++) {
        struct line *line = &lines[at];
        line->fd = atoi(argv[6 + at]);
        line->due = due;
        must_read(&line->length, sizeof line->length);
        line->request = malloc(line->length);
        must_read(line->request, line->length);
        fcntl(line->fd, F_SETFL, fcntl(line->fd, F_GETFL) | O_NONBLOCK);
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = line};
        epoll_ctl(poll_fd, EPOLL_CTL_ADD, line->fd, &event);
    }
    uint64_t start = now_ns(), end = start + (uint64_t)(seconds * 1e9), last = start;
    for (int at = 0; at < count && asked < max; at++, busy++, asked += messages) begin(&lines[at], messages);
    while (busy) {
        struct epoll_event events[256];
        int ready = epoll_wait(poll_fd, events, 256, STALL_MS);
        if (ready == 0) {
            for (int at = 0; at < count; at++)
                if (lines[at].is_busy) fail(&lines[at], "no whole reply within 20 s");
        }
        for (int at = 0; at < ready; at++) {
            struct line *line = events[at].data.ptr;
            if (events[at].events & EPOLLOUT && line->is_busy) push(line);
            if (!(events[at].events & EPOLLIN) || !pull(line) || !line->is_busy) continue;
            last = now_ns();
            if (sample_count < SAMPLES) samples[sample_count++] = (uint32_t)((last - line->began) / 1000);
            done += messages;
            line->is_busy = 0;
            if (last < end && asked < max) asked += messages, begin(line, messages);
            else busy--;
        }
    }
    qsort(samples, sample_count, sizeof *samples, by_size);
    printf("%llu %.6f %u %u\n", (unsigned long long)done, (double)(last - start) / 1e9,
           sample_count ? samples[sample_count / 2] : 0, sample_count ? samples[sample_count * 99 / 100] : 0);
    return 0;
}
