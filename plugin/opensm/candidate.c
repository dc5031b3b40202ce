/* Whether a new epoch comes into force, in OpenSM's threads. */
#include "engine.h"

#include "bytes.h"
#include "packets.h"

/*
 * Whether an epoch that strands hosts is the first of two steps: with on_loss=hold the tables in force strand no fewer
 * on the fabric as it is, and the epoch relies on nothing that is gone.
 */
static bool is_first_step(const struct plugin *p, const struct fit *fit)
{
	struct fit in_force;
	if (p->options.on_loss != LOSS_HOLD || p->tables == NULL || fit->uncovered_hosts > 0 || fit->lost_entries > 0)
		return false;
	bool made = fit_make(&in_force, p->repaired != NULL ? p->repaired : p->tables, &p->osm->subn);
	bool is_first = made && in_force.uncovered_hosts == 0 && fit->stranded_pairs <= in_force.stranded_pairs;
	fit_free(&in_force);
	return is_first;
}

/* Whether the fabric has the lanes or layers that an epoch needs. */
static bool has_its_vls(const struct plugin *p, const struct handoff *h, const struct fit *fit, char *why)
{
	const char *what = h->lane_rows != NULL ? "lanes" : "layers";
	unsigned vls = handoff_vls(h);
	if (vls > 1 && !p->osm->subn.opt.qos)
		return refuse(why, "it needs %u %s and opensm.conf does not say qos TRUE", vls, what);
	return vls <= fit->data_vls || refuse(why, "it needs %u %s and a cable has %u VLs", vls, what, fit->data_vls);
}

/* Whether an epoch may come into force on the fabric as it is. */
static bool may_take(const struct plugin *p, const struct handoff *h, const struct fit *fit, char *why)
{
	/* First what it needs: cables with fewer VLs are not there for what follows. */
	if (!has_its_lids(p, h, why) || !has_its_vls(p, h, fit, why) || (!covers(fit, why) && !is_first_step(p, fit)))
		return false;
	return p->tables == NULL || fit->uncovered_lids <= p->uncovered ||
	       refuse(why, "it does not know the switches of %llu LIDs, the epoch in force misses %llu",
		      (unsigned long long)fit->uncovered_lids, (unsigned long long)p->uncovered);
}

/* Whether the service proved the change to an epoch beside tables that the plugin can compare it with. */
static bool is_proved_beside(const struct handoff *h, const struct handoff *in_force)
{
	return (packets_promise(h) & PROMISE_MIXED) != 0 && repair_is_alike(in_force, h);
}

/*
 * Whether an epoch may follow a repair, one switch after the other: where the change to it is part of its promise, the
 * service may have proved it before the plugin repaired, and then beside tables that no switch has any more. While another
 * OpenSM was master it may have taken the epoch, and switches have it.
 */
static bool may_follow_repair(struct plugin *p, const struct handoff *h, const struct fit *fit, char *why)
{
	if (p->repaired == NULL || is_new_master(p) || !is_proved_beside(h, p->repaired))
		return true;
	pthread_mutex_lock(&p->mutex);
	bool answered = p->answered;
	pthread_mutex_unlock(&p->mutex);
	struct living living;
	char circle[HANDOFF_WHY] = NO_MEMORY;
	bool may = answered;
	if (!answered)
		refuse(why, "not all switches have answered with the repair of the epoch before");
	else if (!living_make(p, &living, h, fit) || !repair_may_change(p->repaired, h, &living, circle))
		may = refuse(why, "its change is not proved beside the repair: %.120s", circle);
	if (answered)
		living_free(&living);
	p->waits = may ? NOTHING : answered ? FOR_RETURN : FOR_ANSWERS;
	return may;
}

/* Gives a candidate back that was not taken, unless a newer one has come meanwhile. */
static void put_back(struct plugin *p, struct handoff *candidate, const char *why)
{
	OSM_LOG(&p->osm->log, OSM_LOG_ERROR, "sarouter: epoch %llu refused: %s\n",
		(unsigned long long)candidate->epoch, why);
	pthread_mutex_lock(&p->mutex);
	status_refuse(&p->fit_refusal, candidate->epoch, why);
	p->status_due = true;
	if (p->candidate == NULL) {
		p->candidate = candidate;
		p->candidate_tried = true;
		candidate = NULL;
	}
	pthread_mutex_unlock(&p->mutex);
	handoff_free(candidate);
	wake_thread(p);
}

void try_candidate(struct plugin *p)
{
	p->waits = NOTHING;
	pthread_mutex_lock(&p->mutex);
	struct handoff *candidate = p->candidate;
	p->candidate = NULL;
	p->fit_refusal.refused = false;
	pthread_mutex_unlock(&p->mutex);
	if (candidate == NULL)
		return;
	struct fit fit;
	char why[HANDOFF_WHY] = NO_MEMORY;
	if (fit_make(&fit, candidate, &p->osm->subn) && may_take(p, candidate, &fit, why) &&
	    may_follow_repair(p, candidate, &fit, why)) {
		OSM_LOG(&p->osm->log, OSM_LOG_INFO, "sarouter: epoch %llu taken\n",
			(unsigned long long)candidate->epoch);
		drop_repair(p);
		p->deaf = p->slow = false;
		handoff_free(p->tables);
		p->tables = candidate;
	} else {
		put_back(p, candidate, why);
	}
	fit_free(&fit);
}

void note_waiting(struct plugin *p)
{
	bool is_over = p->waits == FOR_ANSWERS || (p->waits == FOR_RETURN && p->repaired == NULL);
	pthread_mutex_lock(&p->mutex);
	p->try_again = is_over && p->candidate != NULL && p->candidate_tried;
	p->answered = false;
	pthread_mutex_unlock(&p->mutex);
	p->waits = NOTHING;
}
