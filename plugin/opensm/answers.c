/*
 * See answers.h.
 *
 * OpenSM reports a routing as done when nothing is on its way any more, and that includes what timed out. It keeps what a
 * switch answered, and zeros for what it did not.
 */
#include "answers.h"

#include <string.h>

/* As OpenSM compares them itself at the end of a discovery, where it only says so in its log. */
static bool has_its_lft(const osm_switch_t *sw)
{
	size_t size = (size_t)sw->max_lid_ho + 1;
	if (sw->new_lft == NULL)
		return true;
	return memcmp(sw->lft, sw->new_lft, size < sw->lft_size ? size : sw->lft_size) == 0;
}

/* Whether packets go by a port: it is up, and not a cable that the tables do not count. */
static bool is_used(const struct fit *fit, const struct handoff *h, uint32_t s, unsigned port)
{
	const osm_physp_t *p = osm_node_get_physp_ptr(fit->sw[s]->p_node, port);
	uint32_t c = h->cable_at[(size_t)s * 256 + port];
	return p != NULL && osm_physp_get_port_state(p) != IB_LINK_DOWN && (c == HANDOFF_NO_CABLE || fit->alive[c]);
}

/* Whether packets that come by one port and go by another are on the lanes of the tables. */
static bool has_its_row(const struct handoff *h, uint32_t s, const osm_physp_t *port, unsigned in, unsigned out)
{
	const ib_slvl_table_t *answered = osm_physp_get_slvl_tbl(port, (uint8_t)in);
	const uint8_t *row = h->lane_rows != NULL ? handoff_lane_row(h, s, in, out) : NULL;
	uint8_t sls = row != NULL ? HANDOFF_SLS : h->layers_used;
	for (uint8_t sl = 0; sl < sls; sl++)
		if (ib_slvl_table_get(answered, sl) != (row != NULL ? row[sl] : sl))
			return false;
	return true;
}

/* On cables between switches alone: on a host's own nothing can wait in a circle. */
static bool has_its_lanes(const struct fit *fit, const struct handoff *h, uint32_t s)
{
	osm_node_t *node = fit->sw[s]->p_node;
	const osm_physp_t *management = osm_node_get_physp_ptr(node, 0);
	/* Others need not have a table for what they send themselves: nothing but management does. */
	bool sends = ib_switch_info_is_enhanced_port0(&fit->sw[s]->switch_info);
	unsigned ports = osm_node_get_num_physp(node);
	ports = ports <= h->sw[s].ports ? ports : h->sw[s].ports + 1u;
	/* OpenSM sends it nothing. */
	if (management == NULL || !(management->port_info.capability_mask & IB_PORT_CAP_HAS_SL_MAP))
		return true;
	for (unsigned out = 1; out < ports; out++) {
		if (h->cable_at[(size_t)s * 256 + out] == HANDOFF_NO_CABLE || !is_used(fit, h, s, out))
			continue;
		const osm_physp_t *port = osm_node_get_physp_ptr(node, out);
		for (unsigned in = 0; in < ports; in++)
			if (in != out && (in == 0 ? sends : is_used(fit, h, s, in)) && !has_its_row(h, s, port, in, out))
				return false;
	}
	return true;
}

bool answers_are_there(const struct handoff *h, osm_subn_t *subn, uint64_t *guid, const char **what)
{
	struct fit fit;
	bool good = fit_cables(&fit, h, subn);
	*guid = 0;
	*what = "memory";
	for (uint32_t s = 0; good && s < h->switches; s++) {
		if (fit.sw[s] == NULL)
			continue;
		if (!has_its_lft(fit.sw[s]))
			*what = "its forwarding table";
		else if (subn->opt.qos && !has_its_lanes(&fit, h, s))
			*what = "its SL2VL tables";
		else
			continue;
		*guid = h->sw[s].guid;
		good = false;
	}
	fit_free(&fit);
	return good;
}
