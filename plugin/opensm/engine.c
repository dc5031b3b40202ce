/* The routing engine: lays the tables over the fabric as it is, in OpenSM's threads. */
#include "engine.h"

#include "bytes.h"
#include "certificate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How often to write the first of two steps of a repair. */
enum { MOST_FIRST_STEPS = 2 };

bool covers(const struct fit *fit, char *why)
{
	why[0] = '\0';
	if (fit->uncovered_hosts > 0)
		snprintf(why, HANDOFF_WHY,
			 "it does not know the switches of %llu LIDs of hosts, such as that of port 0x%016llx",
			 (unsigned long long)fit->uncovered_hosts, (unsigned long long)fit->uncovered_guid);
	else if (fit->stranded_pairs > 0 && fit->lost_entries > 0)
		snprintf(why, HANDOFF_WHY,
			 "%llu entries rely on cables or switches that are not there%s, such as at switch 0x%016llx port %u",
			 (unsigned long long)fit->lost_entries, fit->narrow_cables > 0 ? " or have too few VLs" : "",
			 (unsigned long long)fit->lost_guid, fit->lost_port);
	else if (fit->stranded_pairs > 0)
		snprintf(why, HANDOFF_WHY, "it has no way from switch 0x%016llx to the host with LID %u, nor for %llu others",
			 (unsigned long long)fit->stranded_guid, fit->stranded_lid,
			 (unsigned long long)fit->stranded_pairs - 1);
	return why[0] == '\0';
}

bool has_its_lids(const struct plugin *p, const struct handoff *h, char *why)
{
	unsigned lids = 1u << p->osm->subn.opt.lmc;
	if (h->sets > 1 && h->sets != lids)
		snprintf(why, HANDOFF_WHY, "it has routes for %u LIDs of each port, OpenSM gives them %u (lmc %u)", h->sets,
			 lids, p->osm->subn.opt.lmc);
	return h->sets == 1 || h->sets == lids;
}

/*
 * Whether the tables in force may stay on the fabric as it is: with on_loss=hold they do in spite
 * of cables that are gone, but never without hosts that have come.
 */
static bool may_stay(const struct plugin *p, const struct handoff *h, const struct fit *fit, char *why)
{
	if (!has_its_lids(p, h, why))
		return false;
	return covers(fit, why) || (p->options.on_loss == LOSS_HOLD && fit->uncovered_hosts == 0);
}

void drop_repair(struct plugin *p)
{
	repair_free(p->repaired);
	p->repaired = NULL;
	p->halfway = 0;
}

bool living_make(const struct plugin *p, struct living *living, const struct handoff *h, const struct fit *fit)
{
	uint8_t *sources = zeroed(h->switches, 1), *dests = zeroed(handoff_dests(h), 1);
	*living = (struct living){fit->alive, sources, dests, p->until};
	if (sources == NULL || dests == NULL)
		return false;
	for (size_t i = 0; i < fit->targets; i++) {
		const struct fit_target *target = &fit->target[i];
		sources[handoff_home(h, target->dest)] |= target->host;
		if (dests[target->dest] < 1 + target->host)
			dests[target->dest] = (uint8_t)(1 + target->host);
	}
	return true;
}

void living_free(struct living *living)
{
	free((uint8_t *)living->sources);
	free((uint8_t *)living->dests);
}

/* Whether tables reach every host on the fabric as it is. Makes `fit` anew. */
static bool fits(const struct plugin *p, const struct handoff *h, struct fit *fit, char *why)
{
	fit_free(fit);
	snprintf(why, HANDOFF_WHY, NO_MEMORY);
	return fit_make(fit, h, &p->osm->subn) && has_its_lids(p, h, why) && covers(fit, why);
}

/*
 * What switches get first to go around what is gone, and how it lies over the fabric: other ways, or the first of two
 * steps if it is certain that the second reaches everyone. NULL if there is neither.
 */
static struct handoff *find_ways(const struct plugin *p, const struct handoff *in_force, const struct living *living,
				 struct fit *fit, bool *is_first, char *why)
{
	struct handoff *first = NULL, *mended = repair_tables(in_force, living, why);
	if (mended == NULL && !p->deaf)
		mended = repair_two_steps(in_force, living, &first, why);
	bool good = mended != NULL && fits(p, mended, fit, why);
	*is_first = first != NULL;
	if (first == NULL)
		first = mended;
	else
		repair_free(mended);
	if (good && *is_first) {
		/* It strands those who are cut off, and nobody else: it relies on nothing that is gone. */
		fit_free(fit);
		good = fit_make(fit, first, &p->osm->subn) ? fit->lost_entries == 0 : refuse(why, NO_MEMORY);
	}
	if (good)
		return first;
	repair_free(first);
	return NULL;
}

/* After a search that found nothing: whether it ran out of time, of which OpenSM's lock has no more for another. */
static void note_slow(struct plugin *p)
{
	p->slow = p->slow || now_ms() >= p->until;
}

/* Finds other ways around what is gone. Whether there are any; if not, the fit is that of the tables in force. */
static bool repair(struct plugin *p, const struct handoff *in_force, struct fit *fit)
{
	struct living living;
	char none[HANDOFF_WHY] = NO_MEMORY;
	struct handoff *repaired = NULL;
	struct fit mended = {0};
	bool is_first = false;
	if (living_make(p, &living, in_force, fit))
		repaired = find_ways(p, in_force, &living, &mended, &is_first, none);
	living_free(&living);
	if (repaired == NULL) {
		note_slow(p);
		OSM_LOG(&p->osm->log, p->slow ? OSM_LOG_ERROR : OSM_LOG_INFO, "sarouter: epoch %llu is not repaired%s: %s\n",
			(unsigned long long)in_force->epoch, p->slow ? " within repair_limit" : "", none);
		fit_free(&mended);
		return false;
	}
	fit_free(fit);
	*fit = mended;
	drop_repair(p);
	p->repaired = repaired;
	p->halfway = is_first;
	if (is_first)
		OSM_LOG(&p->osm->log, OSM_LOG_INFO, "sarouter: epoch %llu is repaired in two steps\n",
			(unsigned long long)repaired->epoch);
	return true;
}

/* Whether switches may go back from repaired tables to those of the epoch, one after the other. */
static bool may_return(struct plugin *p, const struct fit *fit)
{
	struct living living;
	char why[HANDOFF_WHY];
	if (p->slow)
		return false;
	bool may = living_make(p, &living, p->tables, fit) && repair_may_change(p->repaired, p->tables, &living, why);
	living_free(&living);
	if (!may)
		note_slow(p);
	return may;
}

/*
 * Whether switches that do not have the first of two steps yet get it once more: the second is not proved beside what
 * they have instead. If not, OpenSM's next engine routes.
 */
static bool may_wait(struct plugin *p, const struct fit *fit, char *why)
{
	if (fit->uncovered_hosts > 0)
		return false;
	/* They were not to have it yet. */
	if (is_new_master(p))
		p->halfway = 0;
	p->deaf = p->halfway++ >= MOST_FIRST_STEPS;
	return !p->deaf || refuse(why, "not all switches take the first step of its repair");
}

/*
 * The tables to write, and how they lie over the fabric: those of the epoch, or its repair, that of before or a new one.
 * NULL, with the reason, if none of them may be in force. `fit` is to be released, whatever the outcome.
 */
static const struct handoff *choose(struct plugin *p, struct fit *fit, char *why)
{
	if (fits(p, p->tables, fit, why) && (p->repaired == NULL || may_return(p, fit))) {
		drop_repair(p);
		p->deaf = p->slow = false;
		return p->tables;
	}
	const struct handoff *in_force = p->repaired != NULL ? p->repaired : p->tables;
	if (fits(p, in_force, fit, why)) {
		p->halfway = 0;
		return in_force;
	}
	if (fit->target == NULL || !has_its_lids(p, in_force, why))
		return NULL;
	if (p->halfway > 0 && (is_new_master(p) || !fit_is_written(fit, in_force)))
		return may_wait(p, fit, why) ? in_force : NULL;
	if (p->options.on_loss == LOSS_REPAIR && fit->uncovered_hosts == 0 && !p->slow && repair(p, in_force, fit))
		return p->repaired;
	return may_stay(p, in_force, fit, why) ? in_force : NULL;
}

/* Says of cables that do not count though they are up, once. */
static void note_narrow(struct plugin *p, const struct handoff *h, const struct fit *fit)
{
	if (fit->narrow_cables > 0 && fit->narrow_cables != p->narrow_cables)
		OSM_LOG(&p->osm->log, OSM_LOG_ERROR,
			"sarouter: %u cables have fewer VLs than the %u that epoch %llu needs, and are taken as cut, such as at "
			"switch 0x%016llx port %u\n",
			fit->narrow_cables, handoff_vls(h), (unsigned long long)h->epoch,
			(unsigned long long)fit->narrow_guid, fit->narrow_port);
	p->narrow_cables = fit->narrow_cables;
}

static void note_built(struct plugin *p, const struct handoff *h, const struct fit *fit)
{
	pthread_mutex_lock(&p->mutex);
	p->built = (struct status_tables){.generation = h->epoch,
					  .layers = h->layers_used,
					  .lanes = h->lanes,
					  .lid_sets = h->sets,
					  .certified = certificate_there(h),
					  .lost_entries = fit->lost_entries,
					  .missing_switches = fit->missing_switches,
					  .stranded_pairs = fit->stranded_pairs,
					  .uncovered_lids = fit->uncovered_lids,
					  .guest_lids = fit->guest_lids,
					  .repaired_entries = repair_entries(p->tables, h)};
	memcpy(p->built.fingerprint, h->fingerprint, sizeof(h->fingerprint));
	pthread_mutex_unlock(&p->mutex);
}

/* Writes the tables in force. Returns 0, or -1 to let OpenSM's next engine route. */
static int serve(struct plugin *p)
{
	if (p->tables == NULL)
		return -1;
	struct fit fit = {0};
	char why[HANDOFF_WHY];
	const struct handoff *h = choose(p, &fit, why);
	p->uncovered = fit.uncovered_lids;
	note_narrow(p, p->tables, &fit);
	if (h != NULL) {
		note_built(p, h, &fit);
		fit_write(&fit, h, &p->osm->subn, p->lids);
	} else {
		drop_repair(p);
		pthread_mutex_lock(&p->mutex);
		status_refuse(&p->fit_refusal, p->tables->epoch, why);
		p->status_due = true;
		pthread_mutex_unlock(&p->mutex);
		wake_thread(p);
	}
	fit_free(&fit);
	return h != NULL ? 0 : -1;
}

/* After a discovery: what it found; else NULL. */
static char *discovered(struct plugin *p)
{
	pthread_mutex_lock(&p->mutex);
	bool swept = p->swept;
	p->swept = false;
	pthread_mutex_unlock(&p->mutex);
	return swept ? fabric_text(&p->osm->subn) : NULL;
}

/* After the first of two steps of a repair OpenSM is to route once more, for the second. */
static void note_second(struct plugin *p)
{
	pthread_mutex_lock(&p->mutex);
	p->second = p->halfway > 0 ? SECOND_DUE : NO_SECOND;
	pthread_mutex_unlock(&p->mutex);
}

/* Never positive: OpenSM would then write its own tables under our name. */
static int build_fwd_tables(void *context)
{
	struct plugin *p = context;
	p->until = now_ms() + 1000 * (int64_t)p->options.repair_limit;
	try_candidate(p);
	int answer = serve(p);
	note_second(p);
	note_waiting(p);
	tell(p, &p->repair, repair_text(p->tables, p->repaired));
	/* Who reads of a new fabric routes for it: beside what stays, which is the second step. */
	if (p->halfway == 0)
		tell(p, &p->fabric, discovered(p));
	return answer;
}

static uint8_t path_sl(void *context, uint8_t hint, const ib_net16_t slid, const ib_net16_t dlid)
{
	const struct plugin *p = context;
	uint16_t from = cl_ntoh16(slid), to = cl_ntoh16(dlid);
	if (p->tables == NULL || from > IB_LID_UCAST_END_HO || to > IB_LID_UCAST_END_HO ||
	    p->lids[from].sw < 0 || p->lids[to].dest < 0)
		return hint;
	uint8_t layer = handoff_layer(p->tables, p->lids[to].set, (uint32_t)p->lids[from].sw,
				      (uint32_t)p->lids[to].dest);
	return layer == HANDOFF_NO_LAYER ? hint : layer;
}

/*
 * Without a lane map the layer is the SL is the VL, whatever the site configured for the SLs that we
 * use. With one the switches choose by in and out port; on a host's own cable nothing can wait in a
 * circle, so there the site's settings stay.
 */
static void update_sl2vl(void *context, osm_physp_t *port, uint8_t in, uint8_t out, ib_slvl_table_t *t)
{
	const struct plugin *p = context;
	const struct handoff *h = p->tables;
	if (h == NULL)
		return;
	if (h->lane_rows == NULL) {
		for (uint8_t sl = 0; sl < h->layers_used; sl++)
			ib_slvl_table_set(t, sl, sl);
		return;
	}
	if (port->p_node->sw == NULL)
		return;
	int64_t s = handoff_find_switch(h, cl_ntoh64(osm_node_get_node_guid(port->p_node)));
	const uint8_t *row = s < 0 ? NULL : handoff_lane_row(h, (uint32_t)s, in, out);
	for (uint8_t sl = 0; row != NULL && sl < HANDOFF_SLS; sl++)
		ib_slvl_table_set(t, sl, row[sl]);
}

int engine_setup(struct osm_routing_engine *engine, osm_opensm_t *osm)
{
	(void)osm;
	/* build_lid_matrices stays NULL: multicast needs the hop counts of OpenSM's own. */
	engine->ucast_build_fwd_tables = build_fwd_tables;
	engine->path_sl = path_sl;
	engine->update_sl2vl = update_sl2vl;
	return 0;
}
