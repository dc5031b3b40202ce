/*
 * An OpenSM event plugin that writes down what a routing engine of OpenSM's decided, and what it
 * cost: CPU time of the routing thread from the engine's first call to the return of its last,
 * without sweep and MADs. `routing_engine` must be the engine and then minhop.
 *
 * event_plugin_options is the file to write, which appears complete or not at all:
 *   failed|routed ENGINE CPU_SECONDS PEAK_RSS_KIB
 *   lid LID 0xPORT_GUID                       for every port with a LID
 *   lft 0xSWITCH_GUID HEX                     two digits per LID from 0, ff for no port
 *   sl 0xSWITCH_GUID HEX                      for every host of the switch, by port: one digit per
 *                                             LID from 0, the SL of the path
 *   end
 */
#include <opensm/osm_config.h>
#include <opensm/osm_event_plugin.h>
#include <opensm/osm_opensm.h>
#include <opensm/osm_version.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static osm_opensm_t *osm;
static osm_routing_engine_t *engine;
static int (*matrices)(void *);
static int (*tables)(void *);
static double start = -1;
static int written;

static double cpu(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static long peak_rss_kib(void)
{
	char line[256];
	long kib = 0;
	FILE *f = fopen("/proc/self/status", "r");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "VmHWM: %ld", &kib) == 1)
			break;
	if (f != NULL)
		fclose(f);
	return kib;
}

/* The SL of a path from a host to every LID. */
static void write_sl(FILE *f, osm_switch_t *sw, ib_net16_t from, unsigned max_lid)
{
	fprintf(f, "sl 0x%016llx ", (unsigned long long)cl_ntoh64(osm_node_get_node_guid(sw->p_node)));
	for (unsigned lid = 0; lid <= max_lid; lid++) {
		ib_net16_t to = cl_hton16((uint16_t)lid);
		int ask = engine->path_sl != NULL && to != from && osm_get_port_by_lid(&osm->subn, to) != NULL;
		fprintf(f, "%x", ask ? engine->path_sl(engine->context, 0, from, to) & 15 : 0);
	}
	fputc('\n', f);
}

static void write_switch(FILE *f, osm_switch_t *sw, unsigned max_lid)
{
	fprintf(f, "lft 0x%016llx ", (unsigned long long)cl_ntoh64(osm_node_get_node_guid(sw->p_node)));
	for (unsigned lid = 0; lid <= max_lid; lid++)
		fprintf(f, "%02x", lid == 0 ? 255 : sw->new_lft[lid]);
	fputc('\n', f);
	for (uint8_t p = 1; p < sw->num_ports; p++) {
		osm_physp_t *near = osm_node_get_physp_ptr(sw->p_node, p);
		osm_physp_t *far = near == NULL ? NULL : osm_physp_get_remote(near);
		if (far != NULL && osm_node_get_type(osm_physp_get_node_ptr(far)) == IB_NODE_TYPE_CA)
			write_sl(f, sw, osm_physp_get_base_lid(far), max_lid);
	}
}

static void write_down(const char *answer)
{
	double seconds = start < 0 ? 0 : cpu() - start;
	const char *path = osm->subn.opt.event_plugin_options;
	char beside[4096];
	if (written || path == NULL || snprintf(beside, sizeof(beside), "%s.tmp", path) >= (int)sizeof(beside))
		return;
	written = 1;
	FILE *f = fopen(beside, "w");
	if (f == NULL)
		return;
	fprintf(f, "%s %s %.6f %ld\n", answer, engine->name, seconds, peak_rss_kib());
	if (strcmp(answer, "routed") == 0) {
		/* lash and torus-2QoS tell SLs only while they are in use, which OpenSM notes later. */
		osm_routing_engine_t *used = osm->routing_engine_used;
		osm->routing_engine_used = engine;
		unsigned max_lid = 0;
		osm_port_t *port = (osm_port_t *)cl_qmap_head(&osm->subn.port_guid_tbl);
		for (; port != (osm_port_t *)cl_qmap_end(&osm->subn.port_guid_tbl);
		     port = (osm_port_t *)cl_qmap_next(&port->map_item)) {
			unsigned lid = cl_ntoh16(osm_port_get_base_lid(port));
			fprintf(f, "lid %u 0x%016llx\n", lid, (unsigned long long)cl_ntoh64(osm_port_get_guid(port)));
			max_lid = lid > max_lid ? lid : max_lid;
		}
		osm_switch_t *sw = (osm_switch_t *)cl_qmap_head(&osm->subn.sw_guid_tbl);
		for (; sw != (osm_switch_t *)cl_qmap_end(&osm->subn.sw_guid_tbl);
		     sw = (osm_switch_t *)cl_qmap_next(&sw->map_item))
			write_switch(f, sw, max_lid);
		osm->routing_engine_used = used;
	}
	fputs("end\n", f);
	if (fclose(f) == 0)
		rename(beside, path);
}

/* PATH.started: discovery is over, the engine at work. */
static void tell_start(void)
{
	const char *path = osm->subn.opt.event_plugin_options;
	char beside[4096];
	FILE *f = NULL;
	if (path != NULL && snprintf(beside, sizeof(beside), "%s.started", path) < (int)sizeof(beside))
		f = fopen(beside, "w");
	if (f != NULL)
		fclose(f);
}

static int timed_matrices(void *context)
{
	tell_start();
	start = cpu();
	int error = matrices != NULL ? matrices(context) : osm_ucast_mgr_build_lid_matrices(&osm->sm.ucast_mgr);
	if (error < 0)
		write_down("failed");
	return error;
}

/* updn leaves this to OpenSM's default, which minhop, next in the list, names. */
static int default_tables(void)
{
	for (osm_routing_engine_t *r = osm->routing_engine_list; r != NULL; r = r->next)
		if (r->name != NULL && strcmp(r->name, "minhop") == 0)
			return r->ucast_build_fwd_tables(r->context);
	return -1;
}

static int timed_tables(void *context)
{
	int error = tables != NULL ? tables(context) : default_tables();
	write_down(error < 0 ? "failed" : "routed");
	return error;
}

static void report(void *context, osm_epi_event_id_t event, void *data)
{
	(void)context;
	(void)data;
	if (event != OSM_EVENT_ID_HEAVY_SWEEP_START || engine != NULL || osm->routing_engine_list == NULL)
		return;
	engine = osm->routing_engine_list;
	matrices = engine->build_lid_matrices;
	tables = engine->ucast_build_fwd_tables;
	engine->build_lid_matrices = timed_matrices;
	engine->ucast_build_fwd_tables = timed_tables;
}

static void *create(osm_opensm_t *given)
{
	osm = given;
	return given;
}

static void destroy(void *context)
{
	(void)context;
}

osm_event_plugin_t osm_event_plugin = {
	.osm_version = OSM_VERSION, .create = create, .delete = destroy, .report = report,
};
