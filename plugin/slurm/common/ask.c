#define _GNU_SOURCE
#include "ask.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* Microseconds. */
static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

void asker_init(struct asker *asker, const char *path)
{
	asker->path = path;
	asker->fd = -1;
	asker->failing = false;
	asker->credit = CREDIT_US;
	asker->counted = now();
	asker->asked = asker->silent = asker->waited = 0;
}

void asker_close(struct asker *asker)
{
	if (asker->fd >= 0)
		close(asker->fd);
	asker->fd = -1;
}

/* Waits for events on the connection until the deadline. */
static bool ready(struct asker *asker, short events, int64_t deadline)
{
	struct pollfd pollfd = { .fd = asker->fd, .events = events };
	int64_t left;

	while ((left = deadline - now()) > 0) {
		struct timespec time = { .tv_sec = left / 1000000, .tv_nsec = left % 1000000 * 1000 };
		int n = ppoll(&pollfd, 1, &time, NULL);

		if (n > 0)
			return true;
		if (n < 0 && errno != EINTR)
			return false;
	}
	return false;
}

static bool ensure_connection(struct asker *asker)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	size_t length = strlen(asker->path);

	if (asker->fd >= 0)
		return true;
	if (length >= sizeof(address.sun_path))
		return false;
	memcpy(address.sun_path, asker->path, length);
	asker->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (asker->fd < 0)
		return false;
	/* On a unix socket this succeeds or fails at once. */
	return connect(asker->fd, (struct sockaddr *)&address, sizeof(address)) == 0;
}

static bool write_all(struct asker *asker, const char *text, size_t length, int64_t deadline)
{
	while (length > 0) {
		ssize_t n = send(asker->fd, text, length, MSG_NOSIGNAL);

		if (n > 0) {
			text += n;
			length -= (size_t)n;
		} else if (n < 0 && errno == EAGAIN) {
			if (!ready(asker, POLLOUT, deadline))
				return false;
		} else if (n == 0 || errno != EINTR) {
			return false;
		}
	}
	return true;
}

/* Reads exactly one line into the buffer, without its end. */
static bool read_line(struct asker *asker, int64_t deadline)
{
	size_t length = 0;

	while (length < sizeof(asker->buffer)) {
		ssize_t n = recv(asker->fd, asker->buffer + length, sizeof(asker->buffer) - length, 0);

		if (n > 0) {
			length += (size_t)n;
			if (asker->buffer[length - 1] == '\n') {
				asker->buffer[length - 1] = '\0';
				/* A zero or a second line inside is not an answer. */
				return strlen(asker->buffer) == length - 1 &&
				       strchr(asker->buffer, '\n') == NULL;
			}
		} else if (n < 0 && errno == EAGAIN) {
			if (!ready(asker, POLLIN, deadline))
				return false;
		} else if (n == 0 || errno != EINTR) {
			return false;
		}
		if (now() >= deadline)
			return false;
	}
	return false;
}

/* Names of nodes and commas only, no empty name. */
static bool is_list(const char *list)
{
	bool in_name = false;

	for (; *list; list++) {
		char c = *list;
		bool legal = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
			     c == '-' || c == '_' || c == '.';

		if (c == ',' ? !in_name : !legal)
			return false;
		in_name = c != ',';
	}
	return in_name;
}

static enum answer converse(struct asker *asker, uint32_t job, uint32_t nodes, bool require, char **list,
			    int64_t deadline)
{
	char line[96], wanted[32];
	int length = snprintf(line, sizeof(line), "1 %" PRIu32 " %" PRIu32 " %s\n", job, nodes,
			      require ? "require" : "prefer");
	int prefix = snprintf(wanted, sizeof(wanted), "1 %" PRIu32 " ", job);
	char *rest;

	if (!ensure_connection(asker) || !write_all(asker, line, (size_t)length, deadline) ||
	    !read_line(asker, deadline) || strncmp(asker->buffer, wanted, (size_t)prefix) != 0)
		return ANSWER_SILENT;
	rest = asker->buffer + prefix;
	if (strcmp(rest, "none") == 0)
		return ANSWER_NONE;
	if (strncmp(rest, "nodes ", 6) != 0 || !is_list(rest + 6))
		return ANSWER_SILENT;
	*list = rest + 6;
	return ANSWER_NODES;
}

enum answer asker_ask(struct asker *asker, uint32_t job, uint32_t nodes, bool require, char **list)
{
	int64_t begun = now(), waited;
	enum answer answer;

	/* Whole steps of the growth, so that none is lost to rounding. */
	asker->credit += (begun - asker->counted) / GROWTH;
	asker->counted = begun - (begun - asker->counted) % GROWTH;
	if (asker->credit > CREDIT_US)
		asker->credit = CREDIT_US;
	if (asker->credit < (asker->failing ? CREDIT_US : CREDIT_US / 2))
		return ANSWER_SILENT;
	asker->asked++;
	answer = converse(asker, job, nodes, require, list, begun + asker->credit);
	waited = now() - begun;
	asker->waited += (uint64_t)waited;
	asker->failing = answer == ANSWER_SILENT;
	if (asker->failing) {
		/* What is still on its way would be taken for the answer to the next question. */
		asker_close(asker);
		asker->silent++;
		asker->credit = 0;
	} else if (waited > PROMPT_US) {
		asker->credit -= waited;
	}
	return answer;
}
