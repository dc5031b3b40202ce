/* event_plugin_options of opensm.conf, specified in plugin/README.md. */
#ifndef SAROUTER_OPTIONS_H
#define SAROUTER_OPTIONS_H

#include <limits.h>
#include <stdbool.h>

struct options {
	char state[PATH_MAX], status[PATH_MAX];
	unsigned heartbeat;
	bool decline_on_loss;
};

/* Parses; `text` may be NULL. Returns false and the word that cannot be used. */
bool options_parse(struct options *options, const char *text, char wrong[PATH_MAX]);

#endif
