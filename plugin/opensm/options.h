/* event_plugin_options of opensm.conf, specified in plugin/README.md. */
#ifndef SAROUTER_OPTIONS_H
#define SAROUTER_OPTIONS_H

#include <limits.h>
#include <stdbool.h>

struct options {
	char state[PATH_MAX];
	char status[PATH_MAX]; /* empty: in `state`, with the port's GUID in its name */
	unsigned heartbeat;
	unsigned repair_limit; /* seconds that a repair may keep OpenSM's lock */
	/* When hosts cannot be reached any more. */
	enum { LOSS_REPAIR, LOSS_DECLINE, LOSS_HOLD } on_loss;
};

/* Parses; `text` may be NULL. Returns false and the word that cannot be used. */
bool options_parse(struct options *options, const char *text, char wrong[PATH_MAX]);

#endif
