/* See fit.h. */
#include "fit.h"

#include <stdlib.h>
#include <string.h>

/* Data VLs by the code that PortInfo has for them. */
static unsigned data_vls(uint8_t code)
{
	return code == 0 ? 1 : code >= 5 ? 15 : 1u << (code - 1);
}

/* The physical port if it is there and up. */
static osm_physp_t *live_port(osm_switch_t *sw, uint8_t port)
{
	if (sw == NULL || port >= osm_node_get_num_physp(sw->p_node))
		return NULL;
	osm_physp_t *p = osm_node_get_physp_ptr(sw->p_node, port);
	return p != NULL && osm_physp_get_port_state(p) != IB_LINK_DOWN ? p : NULL;
}

/* The VLs that OpenSM gives a cable: as many as both ends have. */
static unsigned cable_vls(const osm_physp_t *a, const osm_physp_t *b)
{
	unsigned of_a = data_vls(ib_port_info_get_vl_cap(&a->port_info));
	unsigned of_b = data_vls(ib_port_info_get_vl_cap(&b->port_info));
	return of_a < of_b ? of_a : of_b;
}

/*
 * Which switches and cables are there. A cable with fewer VLs than the tables need is not: OpenSM folds what the lane map
 * says there, so that packets of several lanes wait in one.
 */
static void find_cables(struct fit *fit, const struct handoff *h, osm_subn_t *subn)
{
	unsigned most = data_vls(subn->opt.max_op_vls);
	for (uint32_t s = 0; s < h->switches; s++) {
		fit->sw[s] = osm_get_switch_by_guid(subn, cl_hton64(h->sw[s].guid));
		fit->missing_switches += fit->sw[s] == NULL;
	}
	fit->data_vls = most;
	for (uint32_t c = 0; c < h->cables; c++) {
		const struct handoff_cable *cable = &h->cable[c];
		osm_physp_t *a = live_port(fit->sw[cable->a], cable->a_port);
		osm_physp_t *b = live_port(fit->sw[cable->b], cable->b_port);
		if (a == NULL || b == NULL || a->p_remote_physp != b || b->p_remote_physp != a ||
		    !osm_link_is_healthy(a))
			continue;
		unsigned vls = cable_vls(a, b) < most ? cable_vls(a, b) : most;
		fit->data_vls = vls < fit->data_vls ? vls : fit->data_vls;
		fit->alive[c] = vls >= handoff_vls(h);
		if (fit->alive[c])
			continue;
		fit->narrow_cables++;
		fit->narrow_guid = h->sw[cable->a].guid;
		fit->narrow_port = cable->a_port;
	}
}

/* Finds the column of a port and the port of its home switch. False if it has none. */
static bool locate(struct fit *fit, const struct handoff *h, const osm_port_t *port, struct fit_target *target)
{
	unsigned lids = 1u + target->last_lid - target->first_lid;
	if (port->p_node->sw != NULL) {
		int64_t s = handoff_find_switch(h, cl_ntoh64(osm_node_get_node_guid(port->p_node)));
		if (s < 0) {
			fit->uncovered_lids += lids;
			return false;
		}
		target->dest = h->terminals + (uint32_t)s;
		target->last_port = 0;
		target->host = false;
		return true;
	}
	const osm_physp_t *far = port->p_physp->p_remote_physp;
	/* Without a switch on the way there is nothing to route: two adapters back to back. */
	if (far == NULL || far->p_node->sw == NULL)
		return false;
	int64_t home = handoff_find_switch(h, cl_ntoh64(osm_node_get_node_guid(far->p_node)));
	if (home < 0) {
		fit->uncovered_lids += lids;
		fit->uncovered_hosts += lids;
		fit->uncovered_guid = cl_ntoh64(osm_port_get_guid(port));
		return false;
	}
	target->host = true;
	target->last_port = far->port_num;
	int64_t t = handoff_find_terminal(h, cl_ntoh64(osm_port_get_guid(port)));
	if (t >= 0 && h->terminal[t].sw == home && h->terminal[t].port == far->port_num) {
		target->dest = (uint32_t)t;
	} else {
		/* Unknown there: the switch's own tree ends at the right switch. */
		target->dest = h->terminals + (uint32_t)home;
		fit->guest_lids += lids;
	}
	return true;
}

/* Adds a port: each of its LIDs by itself where the tables have routes for each. */
static void add_target(struct fit *fit, const struct handoff *h, struct fit_target port)
{
	port.set = 0;
	if (h->sets == 1) {
		fit->target[fit->targets++] = port;
		return;
	}
	for (unsigned set = 0; set < h->sets && port.first_lid + set <= port.last_lid; set++) {
		struct fit_target target = port;
		target.first_lid = target.last_lid = (uint16_t)(port.first_lid + set);
		target.set = (uint8_t)set;
		fit->target[fit->targets++] = target;
	}
}

static void find_targets(struct fit *fit, const struct handoff *h, osm_subn_t *subn)
{
	cl_qmap_t *ports = &subn->port_guid_tbl;
	for (cl_map_item_t *item = cl_qmap_head(ports); item != cl_qmap_end(ports); item = cl_qmap_next(item)) {
		const osm_port_t *port = (const osm_port_t *)item;
		struct fit_target target;
		osm_port_get_lid_range_ho(port, &target.first_lid, &target.last_lid);
		if (port->p_physp == NULL || target.first_lid == 0 || target.last_lid < target.first_lid ||
		    target.last_lid > IB_LID_UCAST_END_HO)
			continue;
		if (locate(fit, h, port, &target))
			add_target(fit, h, target);
	}
}

/* The port to write for a target; 255 if none. */
static uint8_t egress(const struct fit *fit, const struct handoff *h, uint32_t s, const struct fit_target *target,
		      bool *lost)
{
	*lost = false;
	if (s == handoff_home(h, target->dest))
		return target->last_port;
	uint8_t port = handoff_port(h, target->set, s, target->dest);
	if (port == HANDOFF_UNREACHABLE)
		return OSM_NO_PATH;
	/* A port that is neither the home's nor a cable's did not pass the parser. */
	*lost = !fit->alive[h->cable_at[(size_t)s * 256 + port]];
	return *lost ? OSM_NO_PATH : port;
}

static void count_lost(struct fit *fit, const struct handoff *h)
{
	for (uint32_t s = 0; s < h->switches; s++) {
		if (fit->sw[s] == NULL)
			continue;
		for (size_t i = 0; i < fit->targets; i++) {
			bool lost;
			egress(fit, h, s, &fit->target[i], &lost);
			if (!lost)
				continue;
			fit->lost_entries += 1u + fit->target[i].last_lid - fit->target[i].first_lid;
			fit->lost_guid = h->sw[s].guid;
			fit->lost_port = handoff_port(h, fit->target[i].set, s, fit->target[i].dest);
		}
	}
}

/* The next switch on the way to a target; `s` itself at its end; -1 if there is none. */
static int64_t step(const struct fit *fit, const struct handoff *h, uint32_t s, const struct fit_target *target)
{
	if (s == handoff_home(h, target->dest))
		return s;
	bool lost;
	uint8_t port = egress(fit, h, s, target, &lost);
	if (port == OSM_NO_PATH || fit->sw[s] == NULL)
		return -1;
	const struct handoff_cable *cable = &h->cable[h->cable_at[(size_t)s * 256 + port]];
	return cable->a == s ? cable->b : cable->a;
}

/*
 * Counts the switches with hosts from which packets for a target do not arrive. `known[s]` is
 * 2 * round once packets are known to arrive from s and 2 * round + 1 once they are known not to;
 * it need not be cleared between targets. Each switch is stepped over twice at most: the tables
 * have no loops, the parser saw to that.
 */
static void count_stranded(struct fit *fit, const struct handoff *h, const struct fit_target *target,
			   const uint8_t *with_hosts, uint32_t *known, uint32_t round)
{
	for (uint32_t start = 0; start < h->switches; start++) {
		if (!with_hosts[start])
			continue;
		int64_t at = start, next;
		while (known[at] / 2 != round && (next = step(fit, h, (uint32_t)at, target)) != at && next >= 0)
			at = next;
		bool arrives = known[at] / 2 == round ? known[at] % 2 == 0
						      : (uint32_t)at == handoff_home(h, target->dest);
		uint32_t mark = 2 * round + !arrives;
		for (int64_t on = start; on >= 0 && known[on] / 2 != round;) {
			next = step(fit, h, (uint32_t)on, target);
			known[on] = mark;
			on = next;
		}
		if (arrives)
			continue;
		fit->stranded_pairs += 1u + target->last_lid - target->first_lid;
		fit->stranded_guid = h->sw[start].guid;
		fit->stranded_lid = target->first_lid;
	}
}

static bool find_stranded(struct fit *fit, const struct handoff *h)
{
	uint8_t *with_hosts = calloc(h->switches, sizeof(*with_hosts));
	uint32_t *known = calloc(h->switches, sizeof(*known));
	bool made = with_hosts != NULL && known != NULL;
	for (size_t i = 0; made && i < fit->targets; i++)
		if (fit->target[i].host)
			with_hosts[handoff_home(h, fit->target[i].dest)] = 1;
	for (size_t i = 0; made && i < fit->targets; i++)
		if (fit->target[i].host)
			count_stranded(fit, h, &fit->target[i], with_hosts, known, (uint32_t)i + 1);
	free(with_hosts);
	free(known);
	return made;
}

bool fit_cables(struct fit *fit, const struct handoff *h, osm_subn_t *subn)
{
	memset(fit, 0, sizeof(*fit));
	fit->sw = calloc(h->switches, sizeof(*fit->sw));
	fit->alive = calloc(h->cables + 1, sizeof(*fit->alive));
	if (fit->sw == NULL || fit->alive == NULL)
		return false;
	find_cables(fit, h, subn);
	return true;
}

bool fit_make(struct fit *fit, const struct handoff *h, osm_subn_t *subn)
{
	if (!fit_cables(fit, h, subn))
		return false;
	fit->target = calloc(h->sets * cl_qmap_count(&subn->port_guid_tbl) + 1, sizeof(*fit->target));
	if (fit->target == NULL)
		return false;
	find_targets(fit, h, subn);
	count_lost(fit, h);
	return find_stranded(fit, h);
}

static void note_lids(const struct fit *fit, const struct handoff *h, struct fit_lid *lids)
{
	for (unsigned lid = 0; lid <= IB_LID_UCAST_END_HO; lid++)
		lids[lid] = (struct fit_lid){.dest = -1, .sw = -1};
	for (size_t i = 0; i < fit->targets; i++) {
		const struct fit_target *target = &fit->target[i];
		for (unsigned lid = target->first_lid; lid <= target->last_lid; lid++)
			lids[lid] = (struct fit_lid){.dest = (int32_t)target->dest,
						     .sw = (int32_t)handoff_home(h, target->dest),
						     .set = target->set};
	}
}

void fit_write(const struct fit *fit, const struct handoff *h, osm_subn_t *subn, struct fit_lid *lids)
{
	cl_qmap_t *switches = &subn->sw_guid_tbl;
	/* OpenSM does not clear what an engine before us may have written. */
	for (cl_map_item_t *item = cl_qmap_head(switches); item != cl_qmap_end(switches); item = cl_qmap_next(item)) {
		osm_switch_t *sw = (osm_switch_t *)item;
		memset(sw->new_lft, OSM_NO_PATH, sw->lft_size);
	}
	for (uint32_t s = 0; s < h->switches; s++) {
		osm_switch_t *sw = fit->sw[s];
		if (sw == NULL)
			continue;
		for (size_t i = 0; i < fit->targets; i++) {
			const struct fit_target *target = &fit->target[i];
			bool lost;
			uint8_t port = egress(fit, h, s, target, &lost);
			for (unsigned lid = target->first_lid; lid <= target->last_lid && lid < sw->lft_size; lid++)
				sw->new_lft[lid] = port;
		}
	}
	note_lids(fit, h, lids);
}

bool fit_is_written(const struct fit *fit, const struct handoff *h)
{
	for (uint32_t s = 0; s < h->switches; s++) {
		const osm_switch_t *sw = fit->sw[s];
		for (size_t i = 0; sw != NULL && i < fit->targets; i++) {
			const struct fit_target *target = &fit->target[i];
			uint8_t port = s == handoff_home(h, target->dest) ? target->last_port
									  : handoff_port(h, target->set, s, target->dest);
			for (unsigned lid = target->first_lid; lid <= target->last_lid && lid < sw->lft_size; lid++)
				if (sw->lft[lid] != port)
					return false;
		}
	}
	return true;
}

void fit_free(struct fit *fit)
{
	free(fit->sw);
	free(fit->alive);
	free(fit->target);
	memset(fit, 0, sizeof(*fit));
}
