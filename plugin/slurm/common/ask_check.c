/*
 * Plays a service to the asker, on a clock of its own, and prints what it cost: for the test.
 *
 *	ask_check SOCKET HOW:MILLISECONDS…
 *
 * HOW is `hangs`, `slow` (3 ms to each answer), `rubbish`, `trickles` (a byte per ms), `stopped` or
 * `answers`. A question is tried at every millisecond, as by a scheduler with a long queue. One line per
 * HOW: questions, how many of them were answered, microseconds spent, the most in any 1,200 ms, and
 * when the first answer came (ms, -1: none).
 */
#define clock_gettime fake_clock_gettime
#define ppoll fake_ppoll
#include "ask.c"
#undef clock_gettime
#undef ppoll

#include <stdlib.h>

enum { SPAN_MS = 1200 };

static int64_t clock_us = 1000000;
static const char *how;
static int listener, peer = -1;

int fake_clock_gettime(clockid_t id, struct timespec *t)
{
	(void)id;
	t->tv_sec = clock_us / 1000000;
	t->tv_nsec = clock_us % 1000000 * 1000;
	return 0;
}

static int play(struct pollfd *fd, int64_t limit, int64_t takes, const char *text, size_t length)
{
	if (takes >= limit) {
		clock_us += limit;
		return 0;
	}
	clock_us += takes;
	if (write(peer, text, length) != (ssize_t)length)
		abort();
	fd->revents = POLLIN;
	return 1;
}

/* The service's turn: the asker waits. */
int fake_ppoll(struct pollfd *fd, nfds_t n, const struct timespec *time, const sigset_t *mask)
{
	int64_t limit = (int64_t)time->tv_sec * 1000000 + time->tv_nsec / 1000;
	static char question[256];
	static size_t sent;
	char answer[64];
	ssize_t length;
	int next;

	(void)n, (void)mask;
	/* Later connections wait behind one that was closed. */
	while ((next = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
		if (peer >= 0)
			close(peer);
		peer = next;
	}
	length = read(peer, question, sizeof(question) - 1);
	if (length > 0) {
		question[length] = '\0';
		sent = 0;
	}
	snprintf(answer, sizeof(answer), "1 %d none\n", atoi(question + 2));
	if (strcmp(how, "hangs") == 0)
		return play(fd, limit, limit, "", 0);
	if (strcmp(how, "rubbish") == 0)
		return play(fd, limit, 50, "HTTP/1.1 200 OK\r\n\r\n", 19);
	if (strcmp(how, "trickles") == 0)
		return play(fd, limit, 1000, answer + sent++ % strlen(answer), 1);
	return play(fd, limit, strcmp(how, "slow") == 0 ? 3000 : 50, answer, strlen(answer));
}

static void listen_at(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(listener, 128) != 0)
		abort();
}

static void run(struct asker *asker, const char *path, int64_t ms)
{
	uint64_t asked = asker->asked, silent = asker->silent, waited = asker->waited, most = 0;
	uint64_t *spent = calloc((size_t)ms, sizeof(*spent)), within = 0;
	int64_t begun = clock_us, first = -1, at;
	char *list;

	if (strcmp(how, "stopped") == 0) {
		unlink(path);
		close(listener);
		if (peer >= 0)
			close(peer);
		listener = peer = -1;
	} else if (listener < 0) {
		listen_at(path);
	}
	while ((at = (clock_us - begun) / 1000) < ms) {
		uint64_t before = asker->waited;

		if (asker_ask(asker, 17, 4, false, &list) != ANSWER_SILENT && first < 0)
			first = at;
		spent[at] += asker->waited - before;
		clock_us += 1000;
	}
	for (at = 0; at < ms; at++) {
		within += spent[at] - (at >= SPAN_MS ? spent[at - SPAN_MS] : 0);
		most = within > most ? within : most;
	}
	free(spent);
	asked = asker->asked - asked;
	printf("%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64 "\n", how, asked,
	       asked - (asker->silent - silent), asker->waited - waited, most, first);
}

int main(int argc, char **argv)
{
	static struct asker asker;

	listener = -1;
	if (argc < 3)
		return 2;
	asker_init(&asker, argv[1]);
	for (int i = 2; i < argc; i++) {
		char *colon = strchr(argv[i], ':');

		if (!colon)
			return 2;
		*colon = '\0';
		how = argv[i];
		run(&asker, argv[1], atoll(colon + 1));
	}
	return 0;
}
