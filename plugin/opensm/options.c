/* See options.h. */
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool take_path(char path[PATH_MAX], const char *value)
{
	return snprintf(path, PATH_MAX, "%s", value) < PATH_MAX && value[0] == '/';
}

static bool take_seconds(unsigned *seconds, const char *value)
{
	char *end;
	unsigned long number = strtoul(value, &end, 10);
	*seconds = (unsigned)number;
	/* strtoul takes signs and spaces, too. */
	return *value >= '0' && *value <= '9' && *end == '\0' && number >= 1 && number <= 3600;
}

static bool take(struct options *options, const char *word)
{
	if (strncmp(word, "state=", 6) == 0)
		return take_path(options->state, word + 6);
	if (strncmp(word, "status=", 7) == 0)
		return take_path(options->status, word + 7);
	if (strncmp(word, "heartbeat=", 10) == 0)
		return take_seconds(&options->heartbeat, word + 10);
	if (strncmp(word, "repair_limit=", 13) == 0)
		return take_seconds(&options->repair_limit, word + 13);
	static const char *const words[] = {"on_loss=repair", "on_loss=decline", "on_loss=hold"};
	for (int i = LOSS_REPAIR; i <= LOSS_HOLD; i++)
		if (strcmp(word, words[i]) == 0) {
			options->on_loss = i;
			return true;
		}
	return false;
}

bool options_parse(struct options *options, const char *text, char wrong[PATH_MAX])
{
	*options = (struct options){.heartbeat = 5, .repair_limit = 10, .state = "/var/lib/sarouter"};
	/* OpenSM writes "(null)" for what is not set when it prints its own settings. */
	char *copy = strdup(text != NULL && strcmp(text, "(null)") != 0 ? text : ""), *rest = NULL;
	bool good = copy != NULL;
	snprintf(wrong, PATH_MAX, "no memory");
	for (char *word = good ? strtok_r(copy, ", \t", &rest) : NULL; good && word != NULL;
	     word = strtok_r(NULL, ", \t", &rest)) {
		good = take(options, word);
		snprintf(wrong, PATH_MAX, "%s", word);
	}
	free(copy);
	return good;
}
