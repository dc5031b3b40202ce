/*
 * What the plugins inside slurmctld share: the tag of a job, and the question to the service in
 * Slurm's own types. Whoever includes this has included Slurm's headers.
 */
#ifndef SAROUTER_PREFER_H
#define SAROUTER_PREFER_H

#include "ask.h"

/* 0: not tagged, 'p': prefers, 'r': requires. The tag is a word of the administrator's comment. */
char prefer_tag(const char *comment);

/*
 * The nodes that the service wants a job to have, to be freed by the caller; NULL if it names none that
 * Slurm knows. *silent: there was no answer. Waits within the credit of ask.h; any thread may call it.
 */
bitstr_t *prefer_ask(uint32_t job, uint32_t nodes, bool require, bool *silent);

/*
 * The part of an offer that is in a set, to be freed by the caller; NULL if that is fewer than `nodes`.
 * The set may be NULL.
 */
bitstr_t *prefer_within(bitstr_t *set, bitstr_t *offer, uint32_t nodes);

#endif
